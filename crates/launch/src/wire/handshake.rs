//! The handshake: Noise `NNpsk0` (the Noise Protocol Framework, revision 34, section 9) with the job's key.
//!
//! ```text
//! caller → agent   "ODHL" version  e, tag          53 bytes; the tag proves the key before any costly computation
//! agent → caller   "ODHL" version status  e, ee    6 bytes, and 48 more if status is 0
//! caller → agent   a sealed frame                  proves that the caller does not replay a recording
//! agent → caller   a sealed frame                  the caller has the session
//! ```
//! Magic and version are the prologue, so that nobody between can change them. A replayed first message is
//! answered, but yields no keys: until the first sealed frame has opened, the agent gives the connection neither a
//! session nor time. A refusal is not sealed, so anyone between can forge it; a caller treats it as final only when
//! it comes again and again.

use snow::{Builder, HandshakeState};

use super::VERSION;
use super::sealed::Sealed;
use crate::key::Key;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
const MAGIC: &[u8; 4] = b"ODHL";
/// Ephemeral public key and tag.
const MESSAGE: usize = 48;
/// Magic and version. Every version of the protocol begins with them.
pub const GREETING: usize = 5;
/// The caller's whole first message.
pub const HELLO: usize = GREETING + MESSAGE;
/// The part of the agent's answer that always comes.
pub const ANSWER: usize = GREETING + 1;
/// The part that follows if the caller is accepted.
pub const WELCOME: usize = MESSAGE;

/// Why a peer is refused, or refuses.
#[derive(Debug, Clone, Copy, thiserror::Error, PartialEq, Eq)]
pub enum HandshakeError {
    /// It does not hold the key.
    #[error("authentication failed: the key of this job does not match")]
    Key,
    /// It speaks another version.
    #[error(
        "it speaks version {0} of the launch protocol, this program version {VERSION}: use one version in all pods of a job"
    )]
    Version(u8),
    /// It has reached its limit of sessions.
    #[error("it is busy: too many sessions")]
    Busy,
    /// It does not speak the protocol at all.
    #[error("the peer is not a launch agent")]
    Stranger,
}

const STATUS_WELCOME: u8 = 0;
const STATUS_KEY: u8 = 1;
const STATUS_VERSION: u8 = 2;
const STATUS_BUSY: u8 = 3;

/// Begins a handshake. Returns what to send, and the state to pass to [`finish`].
pub fn begin(key: &Key) -> Result<(Vec<u8>, HandshakeState), snow::Error> {
    let prologue = greeting();
    let mut state =
        Builder::new(PATTERN.parse()?).psk(0, key.bytes())?.prologue(&prologue)?.build_initiator()?;
    let mut message = [0; MESSAGE];
    let length = state.write_message(&[], &mut message)?;
    Ok(([&prologue, &message[..length]].concat(), state))
}

/// Checks the first bytes from a caller: magic and version.
pub fn judge(greeting: &[u8; GREETING]) -> Result<(), HandshakeError> {
    match (greeting.starts_with(MAGIC), greeting[4]) {
        (true, VERSION) => Ok(()),
        (true, version) => Err(HandshakeError::Version(version)),
        (false, _) => Err(HandshakeError::Stranger),
    }
}

/// Accepts a caller's whole first message. Returns the answer to send and the sealed connection.
pub fn accept(key: &Key, hello: &[u8; HELLO]) -> Result<(Vec<u8>, Sealed), HandshakeError> {
    let answered = |hello: &[u8]| -> Result<(Vec<u8>, Sealed), snow::Error> {
        let prologue = greeting();
        let mut state =
            Builder::new(PATTERN.parse()?).psk(0, key.bytes())?.prologue(&prologue)?.build_responder()?;
        state.read_message(&hello[GREETING..], &mut [])?;
        let mut message = [0; MESSAGE];
        let length = state.write_message(&[], &mut message)?;
        let answer = [&prologue[..], &[STATUS_WELCOME], &message[..length]].concat();
        Ok((answer, Sealed::new(state.into_transport_mode()?)))
    };
    answered(hello).map_err(|_| HandshakeError::Key)
}

/// Returns the answer to a refused caller; empty for a peer that does not speak the protocol.
pub fn refuse(refusal: HandshakeError) -> Vec<u8> {
    let status = match refusal {
        HandshakeError::Key => STATUS_KEY,
        HandshakeError::Version(_) => STATUS_VERSION,
        HandshakeError::Busy => STATUS_BUSY,
        HandshakeError::Stranger => return Vec::new(),
    };
    [&greeting()[..], &[status]].concat()
}

/// Checks the first part of an agent's answer.
pub fn judge_answer(answer: &[u8; ANSWER]) -> Result<(), HandshakeError> {
    if !answer.starts_with(MAGIC) {
        return Err(HandshakeError::Stranger);
    }
    match answer[GREETING] {
        STATUS_WELCOME => Ok(()),
        STATUS_KEY => Err(HandshakeError::Key),
        STATUS_VERSION => Err(HandshakeError::Version(answer[4])),
        STATUS_BUSY => Err(HandshakeError::Busy),
        _ => Err(HandshakeError::Stranger),
    }
}

/// Completes the handshake on the caller's side with the second part of the answer.
pub fn finish(mut state: HandshakeState, welcome: &[u8; WELCOME]) -> Result<Sealed, HandshakeError> {
    state
        .read_message(welcome, &mut [])
        .and_then(|_| state.into_transport_mode())
        .map(Sealed::new)
        .map_err(|_| HandshakeError::Key)
}

fn greeting() -> [u8; GREETING] {
    let [a, b, c, d] = *MAGIC;
    [a, b, c, d, VERSION]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::Frame;

    fn hello(key: &Key) -> ([u8; HELLO], HandshakeState) {
        let (bytes, state) = begin(key).unwrap();
        (bytes.try_into().unwrap(), state)
    }

    #[test]
    fn with_one_key_frames_pass_both_ways() {
        let key = Key::derive(b"k");
        let (hello, state) = hello(&key);
        judge(hello[..GREETING].try_into().unwrap()).unwrap();
        let (answer, mut agent) = accept(&key, &hello).unwrap();
        judge_answer(answer[..ANSWER].try_into().unwrap()).unwrap();
        let mut caller = finish(state, answer[ANSWER..].try_into().unwrap()).unwrap();

        for (from, to) in [(true, Frame::Command(b"true".to_vec())), (false, Frame::Exit(7))] {
            let (sender, receiver) = if from { (&mut caller, &mut agent) } else { (&mut agent, &mut caller) };
            sender.seal(&to).unwrap();
            let mut bytes = Vec::new();
            sender.send(&mut bytes).unwrap();
            assert!(!bytes.windows(4).any(|window| window == b"true"), "sealed");
            for byte in bytes {
                assert_eq!(receiver.open(), Ok(None));
                receiver.receive(&[byte]);
            }
            assert_eq!(receiver.open(), Ok(Some(to)));
        }
    }

    #[test]
    fn another_key_is_refused_on_both_sides() {
        let (mine, other) = (Key::derive(b"mine"), Key::derive(b"other"));
        let (hello_bytes, _) = hello(&mine);
        assert_eq!(accept(&other, &hello_bytes).err(), Some(HandshakeError::Key));

        // an agent that does not hold the key but still says "welcome"
        let (forged_hello, _) = hello(&other);
        let (forged, _) = accept(&other, &forged_hello).unwrap();
        let (_, state) = hello(&mine);
        assert_eq!(finish(state, forged[ANSWER..].try_into().unwrap()).err(), Some(HandshakeError::Key));
    }

    #[test]
    fn another_version_and_another_protocol_are_different_refusals() {
        assert_eq!(judge(b"ODHL\x02"), Err(HandshakeError::Version(2)));
        assert_eq!(judge(b"GET /"), Err(HandshakeError::Stranger));
        assert_eq!(judge_answer(b"SSH-2."), Err(HandshakeError::Stranger));
        assert_eq!(judge_answer(b"ODHL\x09\x02"), Err(HandshakeError::Version(9)));
        let busy = refuse(HandshakeError::Busy);
        assert_eq!(judge_answer(&busy.try_into().unwrap()), Err(HandshakeError::Busy));
    }

    #[test]
    fn a_changed_byte_breaks_the_connection() {
        let key = Key::derive(b"k");
        let (hello, _) = hello(&key);
        for index in GREETING..HELLO {
            let mut changed = hello;
            changed[index] ^= 1;
            assert_eq!(accept(&key, &changed).err(), Some(HandshakeError::Key), "byte {index}");
        }
    }
}
