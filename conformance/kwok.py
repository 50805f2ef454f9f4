"""What kwok, which plays the node, makes of it and of pods: stages of its configuration."""

#: The node is ready.
NODE = """apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: node}
spec:
  resourceRef: {apiGroup: v1, kind: Node}
  selector: {matchExpressions: [{key: '.status.phase', operator: NotIn, values: [Running]}]}
  next:
    statusTemplate: |
      conditions:
      - {type: Ready, status: "True", reason: KubeletReady, message: "", lastHeartbeatTime: {{ Now | Quote }}, lastTransitionTime: {{ Now | Quote }}}
      addresses: [{address: 127.0.0.1, type: InternalIP}]
      allocatable: {cpu: "64", memory: 512Gi, pods: "250"}
      capacity: {cpu: "64", memory: 512Gi, pods: "250"}
      phase: Running
"""
#: A pod runs at once.
POD_RUNS = """apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-runs}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: '.metadata.deletionTimestamp', operator: DoesNotExist}
    - {key: '.status.phase', operator: In, values: [Pending]}
  next:
    statusTemplate: |
      conditions:
      - {type: PodScheduled, status: "True", lastTransitionTime: {{ Now | Quote }}}
      - {type: Initialized, status: "True", lastTransitionTime: {{ Now | Quote }}}
      - {type: ContainersReady, status: "True", lastTransitionTime: {{ Now | Quote }}}
      - {type: Ready, status: "True", lastTransitionTime: {{ Now | Quote }}}
      containerStatuses:
      {{ range .spec.containers }}
      - {name: {{ .name | Quote }}, image: {{ .image | Quote }}, imageID: "", ready: true, restartCount: 0, state: {running: {startedAt: {{ Now | Quote }}}}}
      {{ end }}
      hostIP: 127.0.0.1
      podIP: 127.0.0.1
      podIPs: [{ip: 127.0.0.1}]
      phase: Running
      startTime: {{ Now | Quote }}
"""
#: A deleted pod is gone at once.
POD_GOES = """apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-goes}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector: {matchExpressions: [{key: '.metadata.deletionTimestamp', operator: Exists}]}
  next: {finalizers: {empty: true}, delete: true}
"""


def node_with_kubelet(port: int) -> str:
    """The node, whose logs and commands are served at a port of this machine."""
    ready = "      phase: Running\n"
    return NODE.replace(ready, f"      daemonEndpoints: {{kubeletEndpoint: {{Port: {port}}}}}\n{ready}")
