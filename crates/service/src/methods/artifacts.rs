//! Files of a job's volumes: lists a folder, reads a file. The caller's own client does both, through `pods/exec`.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt as _};
use http::StatusCode;
use jobs::artifacts::{self, Entry, Fault, Source, Volume, Wanted, What};

use crate::contract::{
    Artifact, ArtifactChunk, ListArtifactsRequest, ListArtifactsResponse, ReadArtifactRequest, Reader,
    StartReaderRequest,
};
use crate::filter::kind;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::time;
use crate::service::Service;

/// Lists a folder, or the job's volumes.
pub async fn list_artifacts(
    _service: Arc<Service>,
    caller: Arc<Caller>,
    request: ListArtifactsRequest,
) -> Result<ListArtifactsResponse, Problem> {
    let ListArtifactsRequest { namespace, kind: of, name, path, worker } = request;
    let wanted = Wanted { kind: kind(&of)?, namespace, name, worker: index(worker)? };
    if path.is_empty() || path == "/" {
        let volumes = artifacts::volumes(&caller.client, &wanted).await.map_err(problem)?;
        let artifacts = volumes.into_iter().map(volume).collect();
        return Ok(ListArtifactsResponse { artifacts, ..ListArtifactsResponse::default() });
    }
    let found = artifacts::list(&caller.client, &wanted, &path).await.map_err(problem)?;
    let path = path.trim_end_matches('/').to_owned();
    Ok(ListArtifactsResponse {
        artifacts: found.entries.into_iter().map(|entry| artifact(&path, entry)).collect(),
        pod: found.pod,
        truncated: found.truncated,
        path,
    })
}

fn artifact(folder: &str, entry: Entry) -> Artifact {
    let Entry { name, what, is_link, size, modified } = entry;
    let what = match what {
        What::Folder => "folder",
        What::File => "file",
        What::Other => "other",
    };
    Artifact {
        path: format!("{folder}/{}", artifacts::path_of(&name)),
        name: artifacts::spoken(&name),
        r#type: what.to_owned(),
        link: is_link,
        size: size.map(|size| size.to_string()).unwrap_or_default(),
        modified: time(modified),
        ..Artifact::default()
    }
}

fn volume(volume: Volume) -> Artifact {
    let Volume { path, name, source, claim, pod: _, worker } = volume;
    let source = match source {
        Source::PersistentVolumeClaim => "PersistentVolumeClaim",
        Source::Ephemeral => "Ephemeral",
        Source::EmptyDir => "EmptyDir",
        Source::Nfs => "NFS",
    };
    Artifact {
        path: artifacts::path_of(path.as_bytes()),
        name: path,
        r#type: "volume".to_owned(),
        volume: name,
        source: source.to_owned(),
        claim: claim.unwrap_or_default(),
        worker,
        ..Artifact::default()
    }
}

/// Starts a pod that reads the job's claims, or says how far it is.
pub async fn start_reader(
    _service: Arc<Service>,
    caller: Arc<Caller>,
    request: StartReaderRequest,
) -> Result<Reader, Problem> {
    let StartReaderRequest { namespace, kind: of, name } = request;
    let wanted = Wanted { kind: kind(&of)?, namespace, name, worker: None };
    let found = artifacts::reader::start(&caller.client, &wanted).await.map_err(problem)?;
    Ok(Reader {
        pod: found.pod,
        ready: found.ready,
        waits_for: found.waits_for.unwrap_or_default(),
        idle_seconds: i32::try_from(artifacts::reader::IDLE.as_secs()).unwrap_or(i32::MAX),
    })
}

/// Reads a file: first what follows, then its bytes.
pub async fn read_artifact(
    _service: Arc<Service>,
    caller: Arc<Caller>,
    request: ReadArtifactRequest,
) -> Result<BoxStream<'static, Result<ArtifactChunk, Problem>>, Problem> {
    let ReadArtifactRequest { namespace, kind: of, name, path, worker, offset, limit } = request;
    let wanted = Wanted { kind: kind(&of)?, namespace, name, worker: index(worker)? };
    let offset =
        match offset.as_str() {
            "" => 0,
            text => text.parse().ok().filter(|offset: &u64| *offset < u64::MAX).ok_or_else(|| {
                Problem::invalid("offset", "is not a number of bytes", "send a decimal number")
            })?,
        };
    let limit = u64::try_from(limit)
        .map_err(|_| Problem::invalid("limit", "is negative", "send a number of bytes, or leave it out"))?;
    let limit = Some(limit).filter(|limit| *limit > 0);
    let file = artifacts::read(&caller.client, &wanted, &path, offset, limit).await.map_err(problem)?;
    let head = ArtifactChunk {
        name: artifacts::spoken(&file.name),
        size: file.size.to_string(),
        length: file.length.to_string(),
        modified: time(file.modified),
        data: Vec::new(),
    };
    let content = stream::unfold(file, |mut file| async move {
        let next = file.next().await.map_err(problem).transpose()?;
        Some((next.map(|data| ArtifactChunk { data, ..ArtifactChunk::default() }), file))
    });
    Ok(stream::once(async { Ok(head) }).chain(content).boxed())
}

fn index(worker: Option<i32>) -> Result<Option<i32>, Problem> {
    match worker {
        Some(..0) => Err(Problem::invalid("worker", "is negative", "Workers begin at 0")),
        worker => Ok(worker),
    }
}

fn problem(fault: Fault) -> Problem {
    let message = fault.to_string();
    let conflict = |reason| Problem::new(StatusCode::CONFLICT, "Conflict", message.clone()).because(reason);
    let invalid =
        |fix: &str| Problem { message: message.clone(), ..Problem::invalid("path", message.clone(), fix) };
    match fault {
        Fault::Cluster(error) => (*error).into(),
        Fault::NoPod { hint, has_claims: false, .. } => conflict("NoPodRuns").hint(hint),
        Fault::NoPod { hint, has_claims: true, .. } => conflict("NeedsReader").hint(hint),
        Fault::NotNeeded => conflict("PodRuns").hint("list the files: no reader is needed"),
        Fault::NothingKept => {
            conflict("NothingKept").hint("to keep files, let the job write into a PersistentVolumeClaim")
        }
        Fault::ReaderFailed { .. } => conflict("ReaderFailed")
            .hint("start another, or mount the claim in a job and read the files there"),
        Fault::ReaderWaits { .. } => conflict("ReaderWaits").hint("ask again"),
        Fault::Path(fault) => Problem::invalid("path", fault, "use the path of an entry of a list"),
        Fault::Outside(_) => invalid("list without a path to see the job's volumes").because("NotInVolume"),
        Fault::Other { wanted, .. } => {
            let (reason, fix) = match wanted {
                "folder" => ("NotFolder", "read it as a file"),
                _ => ("NotFile", "list it as a folder; devices and pipes are not read"),
            };
            invalid(fix).because(reason)
        }
        Fault::NotFound(_) => {
            Problem::new(StatusCode::NOT_FOUND, "NotFound", message).because("FileNotFound")
        }
        Fault::Unreadable(_) => {
            conflict("Unreadable").hint("let the job write files that its own user may read")
        }
        Fault::TooLarge { .. } => invalid("read it in parts, with offset and limit").because("TooLarge"),
        Fault::NoPrograms { .. } => {
            conflict("NoPrograms").hint("use an image with a shell, or read the volume in another pod")
        }
        Fault::Broken(_) => Problem::new(StatusCode::BAD_GATEWAY, "Error", message).because("BrokenStream"),
    }
}
