from openshift_ai.training import MPIJobClient, MPIJobSpec, WorkerSpec
client = MPIJobClient()
job = client.create_mpijob(MPIJobSpec(
    name="tensorflow-training", namespace="ml-team", image="example/tf-horovod:latest",
    command=["python", "/train.py", "--epochs", "10"],
    worker_spec=WorkerSpec(replicas=4, resources={
        "requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": 2},
        "limits": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": 2}})))
job.monitor(callback=lambda s: print(f"Job status: {s.phase}, Workers running: {s.workers_running}"))
job.wait_for_completion(timeout=3600)
logs = job.get_logs(worker=0)
job.delete()
