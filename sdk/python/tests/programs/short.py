from openshift_ai.training import MPIJobClient
job = MPIJobClient().create_mpijob(name="mnist", image="quay.io/x/horovod", command=["python", "train.py"], workers=4, gpus_per_worker=1)
for line in job.logs(follow=True):
    print(line)
job.wait_for_completion(timeout=3600)   # raises JobFailedError with the cause, the evidence and the fix
