"""Finds the service and signs in: which address, which certificate authority, which token, which namespace.

In this order: arguments, `ODH_TRAINING_URL` (with `ODH_TRAINING_TOKEN` and `ODH_TRAINING_CA`), the pod's own cluster, the
kubeconfig's cluster, the local cluster of `odh local up`. Only files and the environment are read; the only request is for the
service's Route if a kubeconfig leads to an OpenShift cluster.

A token that was found is only for the service that was found with it. It must not go to another address, which may be
anybody's; for that, the caller gives a token.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from . import _yaml
from ._errors import ConfigurationError, UnauthenticatedError

if TYPE_CHECKING:
    import ssl

#: The namespace and name of the service in a cluster.
SERVICE_NAMESPACE = "mpi-operator"
SERVICE_NAME = "odh-training"
#: The service's address for pods.
POD_URL = f"https://{SERVICE_NAME}.{SERVICE_NAMESPACE}.svc"
#: The entry of a kubeconfig's cluster that says where its service is: `{url, certificateAuthority}`.
EXTENSION = "training.opendatahub.io/service"
IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
#: The certificate authority that OpenShift puts into pods for its services' certificates.
SERVICE_CA = "service-ca.crt"
#: How long a token of a file is used before the file is looked at again.
REREAD_SECONDS = 10.0
#: How long an exec plug-in may take, and how long before its end a token of one is renewed.
PLUGIN_SECONDS = 60.0
RENEW_SECONDS = 30.0
LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class TokenSource(Protocol):
    """Where tokens come from."""

    def token(self) -> str:
        """The token to send now."""
        ...

    def renew(self) -> bool:
        """Looks for another token because this one was refused; returns whether there is one."""
        ...


def _usable(text: str, origin: str) -> str:
    """A token without the white space around it, with which files and variables often end. No error contains it."""
    token = text.strip()
    if token and all("!" <= character <= "~" for character in token):
        return token
    what = "contains a character that no token has, for example a line break" if token else "is empty"
    raise ConfigurationError(
        f"{origin} {what}", hint="pass the token as `oc whoami --show-token` prints it, and nothing else"
    )


@dataclass
class FixedToken:
    """A token that does not change."""

    value: str = field(repr=False)

    def __post_init__(self) -> None:
        self.value = _usable(self.value, "the token")

    def token(self) -> str:
        """The token."""
        return self.value

    def renew(self) -> bool:
        """There is no other."""
        return False


@dataclass
class FileToken:
    """A token in a file, which is read again when it was rotated."""

    path: Path
    _value: str = field(default="", repr=False)
    _read_at: float = field(default=float("-inf"), repr=False)

    def token(self) -> str:
        """The token of the file."""
        if time.monotonic() - self._read_at > REREAD_SECONDS:
            self._read()
        return self._value

    def _read(self) -> None:
        try:
            text = self.path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"the token's file {self.path} cannot be read: {error}") from error
        self._value = _usable(text, f"the token in {self.path}")
        self._read_at = time.monotonic()

    def renew(self) -> bool:
        """Reads the file again."""
        before = self._value
        self._read()
        return self._value != before


def given_token(token: str | os.PathLike[str]) -> TokenSource:
    """A token that was given: its text, or the path of the file that has it."""
    return FixedToken(token) if isinstance(token, str) else FileToken(Path(token))


@dataclass
class PluginToken:
    """A token of a kubeconfig's exec plug-in (client.authentication.k8s.io)."""

    exec: dict[str, Any] = field(repr=False)
    folder: Path
    cluster: dict[str, Any] = field(default_factory=dict, repr=False)
    _value: str = field(default="", repr=False)
    _expires: float = field(default=0.0, repr=False)

    def token(self) -> str:
        """The plug-in's token, from memory until it expires."""
        if not self._value or time.time() > self._expires - RENEW_SECONDS:
            self._run()
        return self._value

    def renew(self) -> bool:
        """Runs the plug-in again."""
        before = self._value
        self._run()
        return self._value != before

    def _run(self) -> None:
        import subprocess

        command = str(self.exec.get("command") or "")
        # A relative path with a separator is relative to the kubeconfig, as in client-go.
        program = str(self.folder / command) if os.sep in command else command
        version = self.exec.get("apiVersion", "client.authentication.k8s.io/v1")
        spec: dict[str, Any] = {"interactive": False}
        if self.exec.get("provideClusterInfo"):
            spec["cluster"] = self.cluster
        info = json.dumps({"kind": "ExecCredential", "apiVersion": version, "spec": spec})
        added = {str(v["name"]): str(v["value"]) for v in self.exec.get("env") or []}
        hint = str(self.exec.get("installHint") or "sign in again with the program that wrote the kubeconfig")
        try:
            done = subprocess.run(  # noqa: S603 - the kubeconfig names the program, as for kubectl
                [program, *map(str, self.exec.get("args") or [])],
                env={**os.environ, **added, "KUBERNETES_EXEC_INFO": info},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PLUGIN_SECONDS,
                check=True,
            )
            status = json.loads(done.stdout)["status"]
            token = str(status["token"])
            expires = _seconds(status.get("expirationTimestamp"))
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode(errors="replace").strip()[-500:]
            message = f"the sign-in program {command} ended with code {error.returncode}: {said}"
            raise UnauthenticatedError(message, hint=hint) from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ConfigurationError(f"the sign-in program {command} did not run: {error}", hint=hint) from error
        except (ValueError, KeyError, TypeError) as error:
            message = f"the sign-in program {command} printed no token (client certificates are not supported)"
            raise ConfigurationError(message, hint=hint) from error
        self._value = _usable(token, f"the token of the sign-in program {command}")
        self._expires = expires


def _seconds(timestamp: str | None) -> float:
    from datetime import datetime

    if not timestamp:
        return float("inf")
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


@dataclass
class Service:
    """Where the service is, and how to sign in to it."""

    url: str
    tokens: TokenSource
    ca: str | ssl.SSLContext | None = None
    """A file with certificate authorities, or a context; those of the machine if not given."""
    namespace: str | None = None
    """The namespace of jobs for which none is given."""
    found: str = ""
    """How it was found."""


def find(
    url: str | None = None,
    token: str | os.PathLike[str] | None = None,
    ca: str | ssl.SSLContext | None = None,
    namespace: str | None = None,
    context: str | None = None,
    kubeconfig: str | os.PathLike[str] | None = None,
    insecure_http: bool = False,
) -> Service:
    """Finds the service and the way to sign in.

    Raises `ConfigurationError` with every place that was looked at.
    """
    asked = Asked(url, token, ca, context, kubeconfig)
    looked: list[str] = []
    ways = [_from_arguments, _from_environment, *PLACES]
    if context or kubeconfig:
        ways = [_from_arguments] if url else [_from_kubeconfig]
    for way in ways:
        service = way(asked, looked)
        if service is None:
            continue
        service.url = _checked(service.url, insecure_http)
        service.tokens = given_token(token) if token else service.tokens
        service.ca = ca or service.ca
        service.namespace = namespace or service.namespace or _namespace(asked) or "default"
        return service
    raise ConfigurationError(
        "no training service was found",
        reason="NoService",
        details=looked,
        hint="give url= and token=, set ODH_TRAINING_URL and ODH_TRAINING_TOKEN, or start one with `odh local up`",
    )


@dataclass
class Asked:
    """What the caller gave."""

    url: str | None
    token: str | os.PathLike[str] | None = field(repr=False)
    ca: str | ssl.SSLContext | None
    context: str | None
    kubeconfig: str | os.PathLike[str] | None


def _checked(url: str, insecure_http: bool) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"{url!r} is not the address of a service", hint="write https://HOST[:PORT]")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK and not insecure_http:
        raise ConfigurationError(
            f"{url} would send the token without TLS",
            hint="write https://, or pass insecure_http=True if the network is trusted",
        )
    return url.rstrip("/")


def _from_arguments(asked: Asked, looked: list[str]) -> Service | None:
    if not asked.url:
        looked.append("no argument url=")
        return None
    return _at(asked.url, asked, "the argument url=")


def _at(url: str, asked: Asked, found: str) -> Service:
    """The service at an address: with the token that was given, or with that of the place that names the address."""
    given = asked.token or os.environ.get("ODH_TRAINING_TOKEN")
    if given:
        return Service(url, given_token(given), _environment_ca(), found=found)
    known: list[Service] = []
    looked: list[str] = []
    for way in (_from_kubeconfig,) if asked.context or asked.kubeconfig else PLACES:
        service = way(asked, looked)
        if service is not None and _origin(service.url) == _origin(url):
            return Service(url, service.tokens, _environment_ca() or service.ca, service.namespace, found)
        known += [service] if service else []
    raise ConfigurationError(
        f"there is no token for {url}",
        details=[f"the token of {one.found} is for {one.url} only" for one in known] or looked,
        hint="give token=, or set ODH_TRAINING_TOKEN; Path(FILE) as token= is read again when it was rotated",
    )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    return parts.scheme, parts.hostname, port or {"http": 80, "https": 443}.get(parts.scheme)


def _environment_ca() -> str | None:
    return os.environ.get("ODH_TRAINING_CA")


def _from_environment(asked: Asked, looked: list[str]) -> Service | None:
    url = os.environ.get("ODH_TRAINING_URL")
    if not url:
        looked.append("ODH_TRAINING_URL is not set")
        return None
    return _at(url, asked, "ODH_TRAINING_URL")


def _pod_token() -> FileToken | None:
    path = IN_CLUSTER / "token"
    return FileToken(path) if path.is_file() else None


def _from_pod(_: Asked, looked: list[str]) -> Service | None:
    tokens = _pod_token()
    if tokens is None or not os.environ.get("KUBERNETES_SERVICE_HOST"):
        looked.append("this is not a pod with a service account's token")
        return None
    authority = next((IN_CLUSTER / name for name in (SERVICE_CA, "ca.crt") if (IN_CLUSTER / name).is_file()), None)
    return Service(POD_URL, tokens, str(authority) if authority else None, found="the pod's own cluster")


def _namespace(asked: Asked) -> str | None:
    path = IN_CLUSTER / "namespace"
    if path.is_file():
        return path.read_text().strip()
    try:
        entry = Kubeconfig.read(asked.kubeconfig).context(asked.context)
    except ConfigurationError:
        return None
    return str(entry.get("namespace") or "") or None


def _from_kubeconfig(asked: Asked, looked: list[str]) -> Service | None:
    try:
        config = Kubeconfig.read(asked.kubeconfig)
        context = config.context(asked.context)
    except ConfigurationError as error:
        if asked.context or asked.kubeconfig:
            raise
        looked.append(error.message)
        return None
    namespace = str(context.get("namespace") or "") or None
    name, cluster = str(context.get("cluster") or ""), config.cluster(asked.context)
    extension = _named(cluster.get("extensions"), EXTENSION, "extension")
    if extension.get("url"):
        ca = (
            str(config.folder / str(extension["certificateAuthority"])) if "certificateAuthority" in extension else None
        )
        return Service(
            str(extension["url"]),
            config.tokens(asked.context),
            ca,
            namespace,
            f"the kubeconfig's cluster {name}",
        )
    local = _local_service(str(cluster.get("server") or ""))
    if local:
        local.tokens = config.tokens(asked.context)
        local.namespace = namespace
        return local
    host = _route(config, asked.context, looked)
    if host:
        return Service(
            f"https://{host}", config.tokens(asked.context), namespace=namespace, found=f"the Route in cluster {name}"
        )
    return None


def _route(config: Kubeconfig, context: str | None, looked: list[str]) -> str | None:
    """Asks an OpenShift cluster for the host of the service's Route."""
    import httpx

    server = str(config.cluster(context).get("server") or "")
    path = f"/apis/route.openshift.io/v1/namespaces/{SERVICE_NAMESPACE}/routes/{SERVICE_NAME}"
    try:
        headers = {"Authorization": f"Bearer {config.tokens(context).token()}"}
        trust_env = urlsplit(server).hostname not in LOOPBACK
        answer = httpx.get(server + path, headers=headers, verify=config.ssl(context), timeout=10, trust_env=trust_env)
        if answer.status_code == httpx.codes.OK:
            return str(answer.json()["spec"]["host"])
        looked.append(
            f"the cluster {server} has no Route {SERVICE_NAMESPACE}/{SERVICE_NAME} (HTTP {answer.status_code})"
        )
    except (httpx.HTTPError, httpx.InvalidURL, KeyError, ValueError) as error:
        looked.append(f"the cluster {server} cannot be asked for the service's Route: {error}")
    return None


def _from_local_cluster(_: Asked, looked: list[str]) -> Service | None:
    service = _local_service(None)
    if service is None:
        looked.append(f"no local cluster in {local_home()}")
    return service


def local_home() -> Path:
    """The folder of `odh local`."""
    home = os.environ.get("ODH_HOME")
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(home) if home else Path(data).expanduser() / "odh"


def _local_service(server: str | None) -> Service | None:
    """The service of the local cluster, if that is the one at this address."""
    state = local_home() / "state.json"
    try:
        known = json.loads(state.read_text())
        service = known["service"]
        if server is not None and urlsplit(server).netloc != known["address"]:
            return None
        return Service(
            service["url"],
            FileToken(Path(service["token"])),
            service["certificateAuthority"],
            None,
            "odh local",
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


#: Where the service and a token for it are found together.
PLACES = (_from_pod, _from_kubeconfig, _from_local_cluster)


def is_local(service: Service) -> bool:
    """Whether this is the service of the local cluster, whose pods see this machine's files."""
    local = _local_service(None)
    return local is not None and local.url.rstrip("/") == service.url.rstrip("/")


def _named(items: Any, name: str, part: str) -> dict[str, Any]:
    """The part of the item of a list with this name."""
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict) and item.get("name") == name:
            found = item.get(part)
            return found if isinstance(found, dict) else {}
    return {}


@dataclass
class Kubeconfig:
    """The parts of kubeconfigs that signing in needs. Of several files, the first that has a name wins, as in kubectl."""

    documents: list[tuple[Path, dict[str, Any]]]

    @classmethod
    def read(cls, path: str | os.PathLike[str] | None) -> Kubeconfig:
        """Reads the given file, those of `KUBECONFIG`, or `~/.kube/config`."""
        listed = os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
        paths = [Path(path)] if path else [Path(part) for part in listed.split(os.pathsep) if part]
        documents = []
        for file in paths:
            if not file.is_file():
                continue
            try:
                document = _yaml.read(file.read_text())
            except (OSError, ValueError) as error:
                raise ConfigurationError(f"the kubeconfig {file} cannot be read: {error}") from error
            if isinstance(document, dict):
                documents.append((file, document))
        if not documents:
            raise ConfigurationError(f"there is no kubeconfig at {os.pathsep.join(map(str, paths))}")
        return cls(documents)

    @property
    def folder(self) -> Path:
        """The folder that relative paths begin at."""
        return self.documents[0][0].parent

    def context_name(self, name: str | None) -> str:
        """The given context, or the current one."""
        named = (str(document.get("current-context") or "") for _, document in self.documents)
        found = name or next((current for current in named if current), "")
        if not found:
            raise ConfigurationError("the kubeconfig has no current context", hint="give context=")
        return found

    def context(self, name: str | None) -> dict[str, Any]:
        """A context, its cluster, user and namespace; the first one of a cluster if that has the name."""
        wanted = self.context_name(name)
        for _, document in self.documents:
            found = _named(document.get("contexts"), wanted, "context")
            if found:
                return found
        for _, document in self.documents:
            for one in document.get("contexts") or []:
                context = one.get("context") if isinstance(one, dict) else None
                if name and isinstance(context, dict) and context.get("cluster") == name:
                    return context
        raise ConfigurationError(f"the kubeconfig has no context or cluster {wanted!r}")

    def _entry(self, lists: str, name: str, part: str) -> tuple[Path, dict[str, Any]]:
        for file, document in self.documents:
            found = _named(document.get(lists), name, part)
            if found:
                return file.parent, found
        raise ConfigurationError(f"the kubeconfig has no {part} {name!r}")

    def cluster(self, context: str | None) -> dict[str, Any]:
        """The cluster of a context."""
        return self._entry("clusters", str(self.context(context).get("cluster") or ""), "cluster")[1]

    def tokens(self, context: str | None) -> TokenSource:
        """Where the tokens of a context's user come from."""
        folder, user = self._entry("users", str(self.context(context).get("user") or ""), "user")
        if user.get("token"):
            return FixedToken(str(user["token"]))
        if user.get("tokenFile"):
            return FileToken(folder / str(user["tokenFile"]))
        if isinstance(user.get("exec"), dict):
            return PluginToken(user["exec"], folder, self.cluster(context))
        raise ConfigurationError(
            "the kubeconfig's user has no token, and the service knows no other way to sign in",
            hint="give token=, for example that of `oc whoami --show-token` or `kubectl create token NAME`",
        )

    def ssl(self, context: str | None) -> ssl.SSLContext:
        """The certificate authorities of a context's cluster."""
        import base64

        from ._tls import context as trusting

        folder, cluster = self._entry("clusters", str(self.context(context).get("cluster") or ""), "cluster")
        data = cluster.get("certificate-authority-data")
        if data:
            return trusting(text=base64.b64decode(str(data)).decode())
        file = cluster.get("certificate-authority")
        return trusting(str(folder / str(file)) if file else None)
