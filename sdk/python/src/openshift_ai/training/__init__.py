"""Distributed training jobs on OpenShift AI.

    from openshift_ai.training import MPIJobClient

    job = MPIJobClient().create_mpijob(
        name="mnist", image="quay.io/x/horovod", command=["python", "train.py"], workers=4, gpus_per_worker=1
    )
    for line in job.logs(follow=True):
        print(line)
    job.wait_for_completion(timeout=3600)

`AsyncMPIJobClient` has the same methods for asyncio. Everything public is in this module; it is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from ._async.client import AsyncMPIJobClient as AsyncMPIJobClient
    from ._async.job import AsyncJobList as AsyncJobList
    from ._async.job import AsyncMPIJob as AsyncMPIJob
    from ._async.pipelines import AsyncJobResult as AsyncJobResult
    from ._backoff import Backoff as Backoff
    from ._errors import ConfigurationError as ConfigurationError
    from ._errors import ConflictError as ConflictError
    from ._errors import FieldFault as FieldFault
    from ._errors import ForbiddenError as ForbiddenError
    from ._errors import InvalidSpecError as InvalidSpecError
    from ._errors import JobCancelledError as JobCancelledError
    from ._errors import JobFailedError as JobFailedError
    from ._errors import JobWarning as JobWarning
    from ._errors import NotFoundError as NotFoundError
    from ._errors import QuotaExceededError as QuotaExceededError
    from ._errors import TooManyRequestsError as TooManyRequestsError
    from ._errors import TrainingError as TrainingError
    from ._errors import TrainingTimeoutError as TrainingTimeoutError
    from ._errors import UnauthenticatedError as UnauthenticatedError
    from ._errors import UnavailableError as UnavailableError
    from ._errors import UsageError as UsageError
    from ._errors import WaitInterrupted as WaitInterrupted
    from ._exit_codes import exit_code as exit_code
    from ._live import LiveView as LiveView
    from ._live import show as show
    from ._models import AuditedOperation as AuditedOperation
    from ._models import CheckAvailabilityResponse as CheckAvailabilityResponse
    from ._models import CheckCapacityResponse as CheckCapacityResponse
    from ._models import CompareJobsResponse as CompareJobsResponse
    from ._models import Delivery as Delivery
    from ._models import Event as Event
    from ._models import Failure as Failure
    from ._models import Finding as Finding
    from ._models import Identity as Identity
    from ._models import JobHistory as JobHistory
    from ._models import NamespaceQuota as NamespaceQuota
    from ._models import NotificationRule as NotificationRule
    from ._models import Overview as Overview
    from ._models import Pod as Pod
    from ._models import SignIn as SignIn
    from ._models import Template as Template
    from ._models import TemplateParameter as TemplateParameter
    from ._models import Usage as Usage
    from ._retries import INFRASTRUCTURE as INFRASTRUCTURE
    from ._retries import Retries as Retries
    from ._retries import Step as Step
    from ._retries import more_memory as more_memory
    from ._spec import ClaimVolume as ClaimVolume
    from ._spec import ConfigMapKey as ConfigMapKey
    from ._spec import ConfigMapVolume as ConfigMapVolume
    from ._spec import FailurePolicy as FailurePolicy
    from ._spec import LauncherSpec as LauncherSpec
    from ._spec import MPIConfig as MPIConfig
    from ._spec import MPIJobSpec as MPIJobSpec
    from ._spec import Resources as Resources
    from ._spec import Scheduling as Scheduling
    from ._spec import ScratchVolume as ScratchVolume
    from ._spec import SecretKey as SecretKey
    from ._spec import SecretVolume as SecretVolume
    from ._spec import Toleration as Toleration
    from ._spec import WorkerSpec as WorkerSpec
    from ._status import JobChange as JobChange
    from ._status import JobDetails as JobDetails
    from ._status import JobStatus as JobStatus
    from ._status import LogLine as LogLine
    from ._status import Metrics as Metrics
    from ._sync.client import MPIJobClient as MPIJobClient
    from ._sync.job import JobList as JobList
    from ._sync.job import MPIJob as MPIJob
    from ._sync.pipelines import JobResult as JobResult
    from ._webhook import WebhookError as WebhookError
    from ._webhook import verify_webhook as verify_webhook

_MODULES = {
    "_live": ("LiveView", "show"),
    "_sync.pipelines": ("JobResult",),
    "_async.pipelines": ("AsyncJobResult",),
    "_exit_codes": ("exit_code",),
    "_webhook": (
        "WebhookError",
        "verify_webhook",
    ),
    "_retries": (
        "INFRASTRUCTURE",
        "Retries",
        "Step",
        "more_memory",
    ),
    "_async.client": ("AsyncMPIJobClient",),
    "_async.job": ("AsyncJobList", "AsyncMPIJob"),
    "_backoff": ("Backoff",),
    "_errors": (
        "ConfigurationError",
        "ConflictError",
        "FieldFault",
        "ForbiddenError",
        "InvalidSpecError",
        "JobCancelledError",
        "JobFailedError",
        "JobWarning",
        "NotFoundError",
        "QuotaExceededError",
        "TooManyRequestsError",
        "TrainingError",
        "TrainingTimeoutError",
        "UnauthenticatedError",
        "UnavailableError",
        "UsageError",
        "WaitInterrupted",
    ),
    "_models": (
        "AuditedOperation",
        "Delivery",
        "JobHistory",
        "NotificationRule",
        "Usage",
        "NamespaceQuota",
        "Overview",
        "SignIn",
        "Template",
        "TemplateParameter",
        "CheckAvailabilityResponse",
        "CheckCapacityResponse",
        "CompareJobsResponse",
        "Event",
        "Failure",
        "Finding",
        "Identity",
        "Pod",
    ),
    "_spec": (
        "ClaimVolume",
        "ConfigMapKey",
        "ConfigMapVolume",
        "FailurePolicy",
        "LauncherSpec",
        "MPIConfig",
        "MPIJobSpec",
        "Resources",
        "Scheduling",
        "ScratchVolume",
        "SecretKey",
        "SecretVolume",
        "Toleration",
        "WorkerSpec",
    ),
    "_status": ("Metrics", "JobChange", "JobDetails", "JobStatus", "LogLine"),
    "_sync.client": ("MPIJobClient",),
    "_sync.job": ("JobList", "MPIJob"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["__version__", *sorted(_PLACES)]  # noqa: PLE0604 - texts, of which a test knows that they are all


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used, so that `import openshift_ai.training` takes no time."""
    module = _PLACES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
