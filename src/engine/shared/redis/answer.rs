//! What Redis answers to a write or the like.

use super::Primary;
use crate::wire::resp::Raw;

/// What became of the lead that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// There is no other server.
    Alone,
    /// No server follows.
    Open,
    /// A server follows, and reads the records.
    Followed,
    /// It has them all.
    Ready,
}

/// An answer, by what is to be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done; of a write that offers the lead, what became of the offer.
    Ok(Option<Offer>),
    /// Another server leads, this one.
    Fenced(String),
    /// The node has an older epoch, or another last write than the one before: these.
    Gap {
        /// Its epoch.
        epoch: u64,
        /// Its last write.
        seq: u64,
    },
    /// What was there is not there any more, or something else is.
    Gone,
    /// Nothing was done, because this node of a cluster has the slot.
    Moved(Primary),
    /// Nothing was done, because memory is full.
    Full,
    /// Nothing was done, because the library is not there.
    NoLibrary,
    /// Nothing was done, and the same may be done later: why.
    Later(String),
    /// Nothing was done, and nothing will be: why.
    Refused(String),
}

/// Errors that pass by themselves, or at another node. The last is of a WAIT at a primary that has
/// become a replica.
const PASSING: [&[u8]; 10] = [
    b"ASK",
    b"BUSY",
    b"LOADING",
    b"MASTERDOWN",
    b"TRYAGAIN",
    b"NOREPLICAS",
    b"MISCONF",
    b"READONLY",
    b"CLUSTERDOWN",
    b"UNBLOCKED",
];

/// What a replica says to a WAIT. It has no code of its own.
const WAIT_AT_REPLICA: &[u8] = b"WAIT cannot be used with replica";

/// Whether an error passes by itself, or at another node: nothing was done.
#[must_use]
pub fn is_passing(error: &[u8]) -> bool {
    let code = error.split(|&byte| byte == b' ').next().unwrap_or_default();
    PASSING.contains(&code) || memchr::memmem::find(error, WAIT_AT_REPLICA).is_some()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Answer {
    /// Reads an answer of the library's functions.
    #[must_use]
    pub fn read(raw: Raw<'_>) -> Self {
        if let Some((code, whole)) = raw.error() {
            if let Some(primary) = Primary::of_moved(whole) {
                return Self::Moved(primary);
            }
            return match code {
                b"OOM" => Self::Full,
                _ if is_unknown_function(whole) => Self::NoLibrary,
                _ if is_passing(whole) => Self::Later(text(whole)),
                _ => Self::Refused(text(whole)),
            };
        }
        let mut parts = raw.elements();
        let word = parts.next().and_then(Raw::data);
        let mut number = || parts.next().and_then(Raw::integer).and_then(|it| it.try_into().ok());
        match word {
            Some(b"OK") => Self::Ok(match parts.next().and_then(Raw::data) {
                Some(b"alone") => Some(Offer::Alone),
                Some(b"open") => Some(Offer::Open),
                Some(b"followed") => Some(Offer::Followed),
                Some(b"ready") => Some(Offer::Ready),
                _ => None,
            }),
            Some(b"GONE") => Self::Gone,
            Some(b"GAP") => Self::Gap { epoch: number().unwrap_or(0), seq: number().unwrap_or(0) },
            Some(b"FENCED") => {
                let name = raw.elements().nth(3).and_then(Raw::data).unwrap_or_default();
                Self::Fenced(text(name))
            }
            _ => Self::Refused(format!("an answer that is none: {}", raw.bytes().escape_ascii())),
        }
    }
}

/// Whether an error says that the library is not there.
pub(super) fn is_unknown_function(error: &[u8]) -> bool {
    memchr::memmem::find(error, b"unction not found").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::buf::Input;
    use crate::wire::resp::Framer;

    fn read(bytes: &[u8]) -> Answer {
        Answer::read(Framer::new(1000).next(&mut Input::new(bytes)).unwrap().unwrap())
    }

    #[test]
    fn answers_are_told_apart() {
        assert_eq!(read(b"*1\r\n$2\r\nOK\r\n"), Answer::Ok(None));
        let followed = Answer::Ok(Some(Offer::Followed));
        assert_eq!(read(b"*2\r\n$2\r\nOK\r\n$8\r\nfollowed\r\n"), followed);
        let fenced = b"*4\r\n$6\r\nFENCED\r\n$1\r\n9\r\n$1\r\n4\r\n$1\r\nb\r\n";
        assert_eq!(read(fenced), Answer::Fenced("b".into()));
        let gap = b"*4\r\n$3\r\nGAP\r\n$1\r\n9\r\n$1\r\n4\r\n$0\r\n\r\n";
        assert_eq!(read(gap), Answer::Gap { epoch: 9, seq: 4 });
        assert_eq!(read(b"-OOM command not allowed\r\n"), Answer::Full);
        assert_eq!(read(b"-ERR Function not found\r\n"), Answer::NoLibrary);
        assert!(matches!(read(b"-MOVED 8192 h:1\r\n"), Answer::Moved(_)));
        assert!(matches!(read(b"-ASK 8192 h:1\r\n"), Answer::Later(_)));
        assert_eq!(read(b"-LOADING it\r\n"), Answer::Later("LOADING it".into()));
        assert_eq!(read(b"-NOPERM no\r\n"), Answer::Refused("NOPERM no".into()));
        assert!(matches!(read(b"+PONG\r\n"), Answer::Refused(_)));
        let replica = b"ERR WAIT cannot be used with replica instances. Please also note";
        assert!(is_passing(replica) && is_passing(b"UNBLOCKED force unblock"));
        assert!(!is_passing(b"NOPERM this user") && !is_passing(b"ERR unknown command 'WAIT'"));
    }
}
