"""A client and a worker for the jobcentre job queue server.

`App` has tasks, puts them as jobs and runs them; `Client` and `AsyncClient` speak the line protocol
of the server. The tutorial is docs/clients/python.md of the server's repository.
"""

from .aio import AsyncClient
from .app import App, Hook
from .context import Context
from .errors import (
    AnswerLost,
    BadAnswer,
    BadRequest,
    Cancelled,
    ConnectionLost,
    Draining,
    DuplicateKey,
    Forbidden,
    Full,
    JobcentreError,
    JobFailed,
    JobGone,
    NotHeld,
    PutManyError,
    RequestTimeout,
    ServerError,
    TooManyClients,
    Unauthorized,
    Unavailable,
    UnknownTask,
    Untrusted,
)
from .job import Call, Job
from .requests import Placed
from .reserved import AsyncReservedJob, ReservedJob
from .retry import NoRetry, Retry, RetryIn
from .sync import Client
from .task import Task
from .worker import Stopped, Worker

__version__ = "0.1.0"

__all__ = [
    "AnswerLost",
    "App",
    "AsyncClient",
    "AsyncReservedJob",
    "BadAnswer",
    "BadRequest",
    "Call",
    "Cancelled",
    "Client",
    "ConnectionLost",
    "Context",
    "Draining",
    "DuplicateKey",
    "Forbidden",
    "Full",
    "Hook",
    "Job",
    "JobFailed",
    "JobGone",
    "JobcentreError",
    "NoRetry",
    "NotHeld",
    "Placed",
    "PutManyError",
    "RequestTimeout",
    "ReservedJob",
    "Retry",
    "RetryIn",
    "ServerError",
    "Stopped",
    "Task",
    "TooManyClients",
    "Unauthorized",
    "Unavailable",
    "UnknownTask",
    "Untrusted",
    "Worker",
]
