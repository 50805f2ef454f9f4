"""Distributed training jobs on OpenShift AI.

    from openshift_ai.training import MPIJobClient

    job = MPIJobClient().create_mpijob(
        name="mnist", image="quay.io/x/horovod", command=["python", "train.py"], workers=4, gpus_per_worker=1
    )
    for line in job.logs(follow=True):
        print(line)
    job.wait_for_completion(timeout=3600)

`AsyncMPIJobClient` has the same methods for asyncio. `TrainingClient` and `AsyncTrainingClient` are the general names of
both: they work with jobs of every kind. Everything public is in this module; it is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from ._async.client import (
        AsyncMPIJobClient,
        AsyncTrainingClient,
    )
    from ._async.job import (
        AsyncJobList,
        AsyncMPIJob,
    )
    from ._async.pipelines import AsyncJobResult
    from ._backoff import Backoff
    from ._errors import (
        ConfigurationError,
        ConflictError,
        FieldFault,
        ForbiddenError,
        InvalidSpecError,
        JobCancelledError,
        JobFailedError,
        JobWarning,
        NotFoundError,
        QuotaExceededError,
        TooManyRequestsError,
        TrainingError,
        TrainingTimeoutError,
        UnauthenticatedError,
        UnavailableError,
        UsageError,
        WaitInterrupted,
    )
    from ._exit_codes import exit_code
    from ._live import (
        LiveView,
        show,
    )
    from ._models import (
        Alert,
        AuditedOperation,
        CheckAvailabilityResponse,
        CheckCapacityResponse,
        CompareJobsResponse,
        Delivery,
        Event,
        Failure,
        Finding,
        Identity,
        JobHistory,
        ListAlertsResponse,
        NamespaceQuota,
        NotificationRule,
        Overview,
        Pod,
        SignIn,
        Template,
        TemplateParameter,
        Usage,
    )
    from ._retries import (
        INFRASTRUCTURE,
        Retries,
        Step,
        more_memory,
    )
    from ._spec import (
        ClaimVolume,
        ConfigMapKey,
        ConfigMapVolume,
        FailurePolicy,
        LauncherSpec,
        MPIConfig,
        MPIJobSpec,
        Resources,
        Scheduling,
        ScratchVolume,
        SecretKey,
        SecretVolume,
        Toleration,
        WorkerSpec,
    )
    from ._status import (
        JobChange,
        JobDetails,
        JobStatus,
        LogLine,
        Metrics,
        UsageReport,
    )
    from ._sync.client import (
        MPIJobClient,
        TrainingClient,
    )
    from ._sync.job import (
        JobList,
        MPIJob,
    )
    from ._sync.pipelines import JobResult
    from ._webhook import (
        WebhookError,
        verify_webhook,
    )

__all__ = [
    "INFRASTRUCTURE",
    "Alert",
    "AsyncJobList",
    "AsyncJobResult",
    "AsyncMPIJob",
    "AsyncMPIJobClient",
    "AsyncTrainingClient",
    "AuditedOperation",
    "Backoff",
    "CheckAvailabilityResponse",
    "CheckCapacityResponse",
    "ClaimVolume",
    "CompareJobsResponse",
    "ConfigMapKey",
    "ConfigMapVolume",
    "ConfigurationError",
    "ConflictError",
    "Delivery",
    "Event",
    "Failure",
    "FailurePolicy",
    "FieldFault",
    "Finding",
    "ForbiddenError",
    "Identity",
    "InvalidSpecError",
    "JobCancelledError",
    "JobChange",
    "JobDetails",
    "JobFailedError",
    "JobHistory",
    "JobList",
    "JobResult",
    "JobStatus",
    "JobWarning",
    "LauncherSpec",
    "ListAlertsResponse",
    "LiveView",
    "LogLine",
    "MPIConfig",
    "MPIJob",
    "MPIJobClient",
    "MPIJobSpec",
    "Metrics",
    "NamespaceQuota",
    "NotFoundError",
    "NotificationRule",
    "Overview",
    "Pod",
    "QuotaExceededError",
    "Resources",
    "Retries",
    "Scheduling",
    "ScratchVolume",
    "SecretKey",
    "SecretVolume",
    "SignIn",
    "Step",
    "Template",
    "TemplateParameter",
    "Toleration",
    "TooManyRequestsError",
    "TrainingClient",
    "TrainingError",
    "TrainingTimeoutError",
    "UnauthenticatedError",
    "UnavailableError",
    "Usage",
    "UsageError",
    "UsageReport",
    "WaitInterrupted",
    "WebhookError",
    "WorkerSpec",
    "__version__",
    "exit_code",
    "more_memory",
    "show",
    "verify_webhook",
]

#: The module of every public name.
_PLACES = {
    "Alert": "_models",
    "AsyncJobList": "_async.job",
    "AsyncJobResult": "_async.pipelines",
    "AsyncMPIJob": "_async.job",
    "AsyncMPIJobClient": "_async.client",
    "AsyncTrainingClient": "_async.client",
    "AuditedOperation": "_models",
    "Backoff": "_backoff",
    "CheckAvailabilityResponse": "_models",
    "CheckCapacityResponse": "_models",
    "ClaimVolume": "_spec",
    "CompareJobsResponse": "_models",
    "ConfigMapKey": "_spec",
    "ConfigMapVolume": "_spec",
    "ConfigurationError": "_errors",
    "ConflictError": "_errors",
    "Delivery": "_models",
    "Event": "_models",
    "Failure": "_models",
    "FailurePolicy": "_spec",
    "FieldFault": "_errors",
    "Finding": "_models",
    "ForbiddenError": "_errors",
    "INFRASTRUCTURE": "_retries",
    "Identity": "_models",
    "InvalidSpecError": "_errors",
    "JobCancelledError": "_errors",
    "JobChange": "_status",
    "JobDetails": "_status",
    "JobFailedError": "_errors",
    "JobHistory": "_models",
    "JobList": "_sync.job",
    "JobResult": "_sync.pipelines",
    "JobStatus": "_status",
    "JobWarning": "_errors",
    "LauncherSpec": "_spec",
    "ListAlertsResponse": "_models",
    "LiveView": "_live",
    "LogLine": "_status",
    "MPIConfig": "_spec",
    "MPIJob": "_sync.job",
    "MPIJobClient": "_sync.client",
    "MPIJobSpec": "_spec",
    "Metrics": "_status",
    "NamespaceQuota": "_models",
    "NotFoundError": "_errors",
    "NotificationRule": "_models",
    "Overview": "_models",
    "Pod": "_models",
    "QuotaExceededError": "_errors",
    "Resources": "_spec",
    "Retries": "_retries",
    "Scheduling": "_spec",
    "ScratchVolume": "_spec",
    "SecretKey": "_spec",
    "SecretVolume": "_spec",
    "SignIn": "_models",
    "Step": "_retries",
    "Template": "_models",
    "TemplateParameter": "_models",
    "Toleration": "_spec",
    "TooManyRequestsError": "_errors",
    "TrainingClient": "_sync.client",
    "TrainingError": "_errors",
    "TrainingTimeoutError": "_errors",
    "UnauthenticatedError": "_errors",
    "UnavailableError": "_errors",
    "Usage": "_models",
    "UsageReport": "_status",
    "UsageError": "_errors",
    "WaitInterrupted": "_errors",
    "WebhookError": "_webhook",
    "WorkerSpec": "_spec",
    "exit_code": "_exit_codes",
    "more_memory": "_retries",
    "show": "_live",
    "verify_webhook": "_webhook",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that `import openshift_ai.training` takes no time."""
    module = _PLACES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
