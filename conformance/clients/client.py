"""The official Python client against the cluster that KUBECONFIG names; ends with 0 if all of it works.

Config maps by every verb, server-side apply, a watch, custom resources, logs of a pod, an eviction, a scale.
"""

import sys
import time

from kubernetes import client, config, dynamic, utils, watch

NAMESPACE = "python-client"
# Seconds for which a condition is waited for.
PATIENCE = 60


def until(condition, what):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"{what}: not after {PATIENCE} s")
        time.sleep(0.1)


def config_maps(core):
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a", labels={"app": "x"}), data={"k": "1"})
    core.create_namespaced_config_map(NAMESPACE, body)
    core.patch_namespaced_config_map("a", NAMESPACE, {"data": {"l": "2"}})
    found = core.read_namespaced_config_map("a", NAMESPACE)
    assert found.data == {"k": "1", "l": "2"}, found
    found.data["k"] = "3"
    stale = found.metadata.resource_version
    core.replace_namespaced_config_map("a", NAMESPACE, found)
    found.metadata.resource_version = stale
    try:
        core.replace_namespaced_config_map("a", NAMESPACE, found)
        sys.exit("a stale replacement was taken")
    except client.ApiException as error:
        assert error.status == 409, error
    listed = core.list_namespaced_config_map(NAMESPACE, label_selector="app=x", limit=1)
    assert [item.metadata.name for item in listed.items] == ["a"]
    version = listed.metadata.resource_version
    core.delete_namespaced_config_map("a", NAMESPACE)
    events = watch.Watch().stream(
        core.list_namespaced_config_map, NAMESPACE, resource_version=version, timeout_seconds=PATIENCE
    )
    kind = next(event["type"] for event in events if event["object"].metadata.name == "a")
    assert kind == "DELETED", kind


def custom_resources(api):
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.client.example"},
        "spec": {
            "group": "client.example",
            "names": {"kind": "Boat", "plural": "boats"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {"type": "object", "properties": {"oars": {"type": "integer", "minimum": 1}}},
                                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            },
                        }
                    },
                }
            ],
        },
    }
    utils.create_from_dict(api, definition)
    custom = client.CustomObjectsApi(api)
    place = ("client.example", "v1", NAMESPACE, "boats")

    def served():
        try:
            return custom.list_namespaced_custom_object(*place)["items"] == []
        except client.ApiException:
            return False

    until(served, "boats are served")
    boat = {"apiVersion": "client.example/v1", "kind": "Boat", "metadata": {"name": "b"}, "spec": {"oars": 2}}
    custom.create_namespaced_custom_object(*place, boat)
    custom.patch_namespaced_custom_object_status(*place, "b", {"status": {"afloat": True}})
    assert custom.get_namespaced_custom_object(*place, "b")["status"] == {"afloat": True}
    try:
        custom.patch_namespaced_custom_object(*place, "b", {"spec": {"oars": 0}})
        sys.exit("a boat without oars was taken")
    except client.ApiException as error:
        assert error.status == 422, error
    boats = dynamic.DynamicClient(api).resources.get(api_version="client.example/v1", kind="Boat")
    applied = boats.server_side_apply(
        {**boat, "spec": {"oars": 4}}, namespace=NAMESPACE, field_manager="py", force_conflicts=True
    )
    assert applied.spec.oars == 4, applied


def workloads(core, apps):
    labels = {"app": "sleepers"}
    container = client.V1Container(name="main", image="local", command=["sh", "-c", "echo hello; exec sleep 600"])
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels),
        spec=client.V1PodSpec(containers=[container], termination_grace_period_seconds=0),
    )
    apps.create_namespaced_deployment(
        NAMESPACE,
        client.V1Deployment(
            metadata=client.V1ObjectMeta(name="sleepers"),
            spec=client.V1DeploymentSpec(
                replicas=1, selector=client.V1LabelSelector(match_labels=labels), template=template
            ),
        ),
    )

    def available(count):
        status = apps.read_namespaced_deployment_status("sleepers", NAMESPACE).status
        return (status.available_replicas or 0) == count

    until(lambda: available(1), "one sleeper")
    pod = core.list_namespaced_pod(NAMESPACE, label_selector="app=sleepers").items[0].metadata.name
    until(lambda: "hello" in core.read_namespaced_pod_log(pod, NAMESPACE), "its log")
    apps.patch_namespaced_deployment_scale("sleepers", NAMESPACE, {"spec": {"replicas": 2}})
    until(lambda: available(2), "two sleepers")
    core.create_namespaced_pod_eviction(
        pod, NAMESPACE, client.V1Eviction(metadata=client.V1ObjectMeta(name=pod, namespace=NAMESPACE))
    )

    def evicted():
        pods = core.list_namespaced_pod(NAMESPACE, label_selector="app=sleepers").items
        return pod not in [item.metadata.name for item in pods]

    until(evicted, "the eviction")
    until(lambda: available(2), "the one that takes its place")


def main():
    config.load_kube_config()
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    config_maps(core)
    custom_resources(core.api_client)
    workloads(core, apps)
    core.delete_namespace(NAMESPACE)
    print("the Python client works")


main()
