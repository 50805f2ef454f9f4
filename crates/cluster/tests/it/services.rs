//! Services between real pods: names and addresses, in every mode that this machine permits.

use cluster::node::ModeKind;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, LogParams};
use serde_json::json;

use crate::control::make;
use crate::pods::{in_each_mode, phase, until};
use crate::policies::{pod, serving, warning};

/// Prints the addresses of the names once the Service is reachable.
const CLIENT: &str = "import socket, time
while True:
    try:
        socket.create_connection(('web', 8000), timeout=1).close()
        break
    except OSError:
        time.sleep(0.05)
print(socket.gethostbyname('web.team.svc.cluster.local'), flush=True)
print(socket.gethostbyname('first.peers'), flush=True)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_reaches_a_service_by_its_name_and_address() {
    in_each_mode(|client, mode| async move {
        let pods: Api<Pod> = Api::namespaced(client.clone(), "team");
        let services: Api<Service> = Api::namespaced(client.clone(), "team");
        let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "team");
        let isolates = mode != ModeKind::Plain;
        let address = if isolates { serving(&pods).await } else { "10.77.200.1".to_owned() };
        let web = json!({"metadata": {"name": "web"}, "spec": {"selector": {"role": "worker"},
            "ports": [{"port": 8000, "targetPort": 80}]}});
        let web = make(&services, web).await;
        let own = web.spec.as_ref().unwrap().cluster_ip.clone().unwrap();
        let peers = json!({"metadata": {"name": "peers"}, "spec": {"clusterIP": "None"}});
        make(&services, peers).await;
        for name in ["web", "peers"] {
            let slice = json!({"metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
                "addressType": "IPv4", "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
                "endpoints": [{"addresses": [address], "hostname": "first", "conditions": {"ready": true}}]});
            make(&slices, slice).await;
        }
        if !isolates {
            assert_eq!(
                warning(&client, web.uid()).await,
                "The Service's cluster IP is unreachable: in plain mode pods share the machine's network"
            );
            return;
        }
        let mut asks = pod("asks", "client", CLIENT, "");
        asks["spec"]["restartPolicy"] = "Never".into();
        make(&pods, asks).await;
        until(&client, "asks", "has reached the Service", |pod| phase(pod) == Some("Succeeded")).await;
        let said = pods.logs("asks", &LogParams::default()).await.unwrap();
        assert_eq!(said, format!("{own}\n{address}\n"), "{mode}");
        for name in ["server", "asks"] {
            pods.delete(name, &DeleteParams::default()).await.unwrap();
        }
    })
    .await;
}
