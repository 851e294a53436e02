//! Parses the text of a transcript.

use jobcentre::server::Settings;
use jobcentre::wire::msgpack::from_json;
use std::collections::BTreeMap;
use std::time::Duration;

/// The protocol whose clients speak in lines, by which they come in unless the transcript says
/// otherwise.
pub(super) const DEFAULT_PROTOCOL: &str = "job-centre";

/// The other protocols.
const PROTOCOLS: [&str; 3] = ["pinpriq", "beanstalkd", HTTP_PROTOCOL];

/// The protocol whose clients speak in requests and answers.
const HTTP_PROTOCOL: &str = "http";

/// A conversation.
#[derive(Debug)]
pub(super) struct Transcript {
    pub(super) settings: Settings,
    /// It cannot be played against a real process.
    pub(super) pure: bool,
    /// Only for an engine that completes each command at once.
    pub(super) prompt: bool,
    /// Clients send tokens that they have received, so that nothing is sent before it is answered.
    pub(super) tokens: bool,
    /// The protocols of clients that do not come in by the usual one.
    pub(super) protocols: BTreeMap<char, &'static str>,
    pub(super) steps: Vec<Step>,
}

impl Transcript {
    /// The name of the protocol by which this client comes in.
    pub(super) fn protocol(&self, client: char) -> &'static str {
        self.protocols.get(&client).copied().unwrap_or(DEFAULT_PROTOCOL)
    }
}

/// One line of a conversation.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) client: char,
    pub(super) what: What,
}

/// What happens.
#[derive(Clone, Debug)]
pub(super) enum What {
    Close,
    Connect,
    Ended,
    Read,
    Receive(Expected),
    Reset,
    Send { bytes: Vec<u8>, last: bool },
    Silent,
    StopReading,
    Time(Duration),
}

/// What must be received.
#[derive(Clone, Debug)]
pub(super) enum Expected {
    /// These bytes, be they lines or not.
    Bytes(Vec<u8>),
    /// These lines, without the last line end.
    Exactly(Vec<u8>),
    /// An answer with this status and body: see [`super::answers`].
    Answer(u16, String),
    /// The same whose body is MessagePack, which as JSON is this.
    Packed(u16, String),
    /// A line that is an error with this in its message.
    Error(String),
}

/// Stands for the client in a step without one.
const NO_CLIENT: char = '@';

/// Reads a transcript, or says which line of it makes no sense.
pub(super) fn parse(text: &str) -> Result<Transcript, String> {
    let mut transcript = Transcript {
        settings: Settings { max_request: 1024 * 1024, max_clients: 100, max_memory: None },
        pure: false,
        prompt: false,
        tokens: false,
        protocols: BTreeMap::new(),
        steps: Vec::new(),
    };
    for (line, text) in (1..).zip(text.lines()) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        read(line, text, &mut transcript)
            .ok_or_else(|| format!("line {line} is no line of a transcript: {text}"))?;
    }
    Ok(transcript)
}

fn read(line: usize, text: &str, transcript: &mut Transcript) -> Option<()> {
    if let Some(setting) = text.strip_prefix("! ") {
        return set(setting, transcript);
    }
    if let Some(time) = text.strip_prefix("@ +") {
        let what = What::Time(match time.strip_suffix("ms") {
            Some(number) => Duration::from_millis(number.parse().ok()?),
            None => Duration::from_secs(time.strip_suffix('s')?.parse().ok()?),
        });
        transcript.pure = true;
        transcript.steps.push(Step { line, client: NO_CLIENT, what });
        return Some(());
    }
    let client = text.chars().next().filter(char::is_ascii_uppercase)?;
    let what = match transcript.protocol(client) {
        DEFAULT_PROTOCOL => step(&text[1..])?,
        HTTP_PROTOCOL => step_in_requests(&text[1..])?,
        _ => step_in_bytes(&text[1..])?,
    };
    transcript.pure |= matches!(what, What::StopReading | What::Read);
    transcript.steps.push(Step { line, client, what });
    Some(())
}

fn set(setting: &str, transcript: &mut Transcript) -> Option<()> {
    match setting.split_once(' ') {
        Some(("max-request", number)) => transcript.settings.max_request = number.parse().ok()?,
        Some(("max-clients", number)) => transcript.settings.max_clients = number.parse().ok()?,
        Some(("max-memory", number)) => {
            transcript.settings.max_memory = Some(number.parse().ok()?);
        }
        Some(("protocol", names)) => {
            let mut names = names.split_whitespace();
            let name = names.next()?;
            let protocol = PROTOCOLS.into_iter().find(|protocol| *protocol == name)?;
            for name in names {
                let client = name.parse().ok().filter(char::is_ascii_uppercase)?;
                let known = transcript.steps.iter().any(|step| step.client == client);
                if known || transcript.protocols.insert(client, protocol).is_some() {
                    return None;
                }
            }
        }
        None if setting == "pure" => transcript.pure = true,
        None if setting == "tokens" => transcript.tokens = true,
        None if setting == "prompt" => transcript.prompt = true,
        _ => return None,
    }
    Some(())
}

/// A request whose body is MessagePack: `METHOD TARGET @WORKER JSON`.
fn packed_request(text: &str) -> Option<What> {
    let (method, rest) = text.split_once(' ')?;
    let (target, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (worker, json) = match rest.strip_prefix('@') {
        Some(rest) => rest.split_once(' ').unwrap_or((rest, "")),
        None => ("", rest),
    };
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n");
    if !worker.is_empty() {
        head.extend(["Worker-Id: ", worker, "\r\n"]);
    }
    let mut body = Vec::new();
    if !json.is_empty() {
        from_json(json.as_bytes(), &mut body).ok()?;
        let length = body.len().to_string();
        head.extend(["Content-Type: application/msgpack\r\nContent-Length: ", &length, "\r\n"]);
    }
    let bytes = [head.as_bytes(), b"\r\n", &body].concat();
    Some(What::Send { bytes, last: false })
}

/// A step of a client that speaks HTTP.
fn step_in_requests(text: &str) -> Option<What> {
    if let Some(request) = text.strip_prefix("?j ") {
        let (start, body) = match request.match_indices(' ').nth(1) {
            Some((at, _)) => (&request[..at], &request[at + 1..]),
            None => (request, ""),
        };
        let tokens = body.matches("%t").count() + body.matches("%u").count();
        let length = body.len() + tokens * (super::answers::TOKEN_DIGITS - 2);
        let head = format!("{start} HTTP/1.1\r\nHost: localhost\r\n");
        let fields = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
        let bytes = [head, fields, format!("\r\n{body}")].concat().into_bytes();
        return start.contains(' ').then_some(What::Send { bytes, last: false });
    }
    if let Some(request) = text.strip_prefix("? ") {
        let mut words = request.splitn(3, ' ');
        let (method, target) = (words.next()?, words.next()?);
        let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n");
        let bytes = match words.next() {
            Some(body) => format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()),
            None => format!("{head}\r\n"),
        };
        return Some(What::Send { bytes: bytes.into_bytes(), last: false });
    }
    if let Some(request) = text.strip_prefix("?~ ") {
        return packed_request(request);
    }
    if let Some(answer) = text.strip_prefix("=~ ") {
        let (status, body) = answer.split_once(' ').unwrap_or((answer, ""));
        return Some(What::Receive(Expected::Packed(status.parse().ok()?, body.to_owned())));
    }
    if let Some(answer) = text.strip_prefix("= ") {
        let (status, body) = answer.split_once(' ').unwrap_or((answer, ""));
        return Some(What::Receive(Expected::Answer(status.parse().ok()?, body.to_owned())));
    }
    if let Some(text) = text.strip_prefix("<<") {
        return Some(What::Receive(Expected::Bytes(bytes(text)?)));
    }
    Some(match step(text)? {
        What::Receive(Expected::Exactly(mut line)) => {
            line.extend_from_slice(b"\r\n");
            What::Receive(Expected::Bytes(line))
        }
        What::Receive(_) => return None,
        What::Send { mut bytes, last: false } if !text.starts_with(">>") => {
            bytes.insert(bytes.len() - 1, b'\r');
            What::Send { bytes, last: false }
        }
        other => other,
    })
}

/// A step of a client that speaks no lines.
fn step_in_bytes(text: &str) -> Option<What> {
    if let Some(text) = text.strip_prefix("<<") {
        return Some(What::Receive(Expected::Bytes(bytes(text)?)));
    }
    let what = step(text)?;
    let is_line = text.starts_with('>') && !text.starts_with(">>");
    (!is_line && !matches!(what, What::Receive(_))).then_some(what)
}

fn step(text: &str) -> Option<What> {
    let rest = |text: &str| match text {
        "" => Some(String::new()),
        _ => text.strip_prefix(' ').map(str::to_owned),
    };
    if text == "." {
        return Some(What::Silent);
    }
    if text == "<|" {
        return Some(What::Ended);
    }
    if let Some(text) = text.strip_prefix(">>") {
        return Some(What::Send { bytes: bytes(text)?, last: false });
    }
    if let Some(text) = text.strip_prefix('>') {
        return Some(What::Send { bytes: (rest(text)? + "\n").into_bytes(), last: false });
    }
    if let Some(text) = text.strip_prefix("<<") {
        return Some(What::Receive(Expected::Exactly(bytes(text)?)));
    }
    if let Some(text) = text.strip_prefix("<~") {
        return Some(What::Receive(Expected::Error(rest(text)?)));
    }
    if let Some(text) = text.strip_prefix('<') {
        return Some(What::Receive(Expected::Exactly(rest(text)?.into_bytes())));
    }
    Some(match text.strip_prefix("| ")? {
        "connect" => What::Connect,
        "half-close" => What::Send { bytes: Vec::new(), last: true },
        "close" => What::Close,
        "reset" => What::Reset,
        "stop-reading" => What::StopReading,
        "read" => What::Read,
        _ => return None,
    })
}

/// Reads `"string" * number + 00ff (...)`, to the end.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let (bytes, rest) = pieces(text)?;
    rest.is_empty().then_some(bytes)
}

/// Reads pieces up to the end or a closing parenthesis; returns their bytes and what is behind.
fn pieces(text: &str) -> Option<(Vec<u8>, &str)> {
    let (mut bytes, mut rest) = (Vec::new(), text.trim_start());
    loop {
        let (piece, behind) = piece(rest)?;
        rest = behind.trim_start();
        let mut times = 1;
        if let Some(behind) = rest.strip_prefix('*') {
            let behind = behind.trim_start();
            let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
            times = behind[..end].parse().ok()?;
            rest = behind[end..].trim_start();
        }
        bytes.extend(piece.repeat(times));
        if rest.is_empty() || rest.starts_with(')') {
            return Some((bytes, rest));
        }
        rest = rest.strip_prefix('+').unwrap_or(rest).trim_start();
    }
}

/// Reads a string, a run of hexadecimal bytes, or pieces in parentheses.
fn piece(text: &str) -> Option<(Vec<u8>, &str)> {
    if let Some(text) = text.strip_prefix('"') {
        return string(text);
    }
    if let Some(text) = text.strip_prefix('(') {
        let (bytes, rest) = pieces(text)?;
        return Some((bytes, rest.strip_prefix(')')?));
    }
    let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
    let byte = |at: usize| u8::from_str_radix(text[..end].get(at..at + 2)?, 16).ok();
    let bytes: Vec<u8> = (0..end).step_by(2).map(byte).collect::<Option<_>>()?;
    (end > 0).then_some((bytes, &text[end..]))
}

/// Reads a string behind its opening quote; returns it and what is behind its closing one.
fn string(text: &str) -> Option<(Vec<u8>, &str)> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    loop {
        let end = rest.find(['"', '\\'])?;
        bytes.extend_from_slice(&rest.as_bytes()[..end]);
        let (mark, behind) = rest[end..].split_at(1);
        if mark == "\"" {
            return Some((bytes, behind));
        }
        let escape = behind.chars().next()?;
        rest = &behind[1..];
        bytes.push(match escape {
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            '0' => 0,
            '\\' => b'\\',
            '"' => b'"',
            'x' => {
                let byte = u8::from_str_radix(rest.get(..2)?, 16).ok()?;
                rest = &rest[2..];
                byte
            }
            _ => return None,
        });
    }
}

#[test]
fn escapes_and_repetitions_are_expanded() {
    assert_eq!(bytes(r#" "a\r\n\x00\xff\"\\" * 2 + "b""#).unwrap(), {
        let piece = b"a\r\n\x00\xff\"\\";
        [&piece[..], piece, b"b"].concat()
    });
    assert_eq!(bytes(r#"70 0001fF"q"*2 + 0a*2"#).unwrap(), b"\x70\x00\x01\xffqq\n\n");
    assert_eq!(bytes(r#"( 01 ("a" * 2 02) * 2 ) 03"#).unwrap(), b"\x01aa\x02aa\x02\x03");
    for wrong in ["a", "\"a", r#""a" b"#, r#""\q""#, r#""\x1""#, r#""a" *"#, r#""a" +"#] {
        assert_eq!(bytes(wrong), None, "{wrong}");
    }
    for wrong in ["", " ", "000", "0g", "00 *", "(00", "00)", "()", "\u{e9}", "00 + + 00"] {
        assert_eq!(bytes(wrong), None, "{wrong}");
    }
}

#[test]
fn client_uses_the_framing_of_its_protocol() {
    let transcript = parse("! protocol pinpriq P Q\nP>> 41\nP<< 0a \"a\"\nA<< 0a \"a\"").unwrap();
    let [protocol_p, protocol_q, protocol_a] =
        ['P', 'Q', 'A'].map(|client| transcript.protocol(client));
    assert_eq!([protocol_p, protocol_q, protocol_a], ["pinpriq", "pinpriq", DEFAULT_PROTOCOL]);
    let [_, in_bytes, in_lines] = &transcript.steps[..] else { panic!("three steps") };
    assert!(matches!(&in_bytes.what, What::Receive(Expected::Bytes(bytes)) if bytes == b"\na"));
    assert!(matches!(&in_lines.what, What::Receive(Expected::Exactly(lines)) if lines == b"\na"));
    for wrong in
        ["P> a", "P>", "P< a", "P<", "P<~ a", "P>> x", "! protocol x R", "! protocol pinpriq p"]
    {
        parse(&format!("! protocol pinpriq P\n{wrong}")).unwrap_err();
    }
    for wrong in [
        "! protocol pinpriq A A",
        "A> x\n! protocol pinpriq A",
        "! protocol",
        "! protocol pinpriq AB",
    ] {
        parse(wrong).unwrap_err();
    }
}

#[test]
fn client_sends_whole_requests() {
    let text =
        "! protocol http H\nH> a\nH>> \"b\"\nH? PUT /x {} {}\nH? GET /\nH< c\nH= 200 d e\nH= 204";
    let steps = parse(text).unwrap().steps;
    let sent = |number: usize| match &steps[number].what {
        What::Send { bytes, last: false } => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!([sent(0), sent(1)], ["a\r\n", "b"]);
    assert_eq!(sent(2), "PUT /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n{} {}");
    assert_eq!(sent(3), "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let received = |number: usize| format!("{:?}", steps[number].what);
    assert_eq!(received(4), format!("Receive(Bytes({:?}))", b"c\r\n"));
    assert_eq!(received(5), "Receive(Answer(200, \"d e\"))");
    assert_eq!(received(6), "Receive(Answer(204, \"\"))");
    let steps = parse("! protocol http H\nH?j POST /x {\"a\": \"%t\"}").unwrap().steps;
    let What::Send { bytes, last: false } = &steps[0].what else { panic!("it is sent") };
    let head = "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let rest = "Content-Length: 25\r\n\r\n{\"a\": \"%t\"}";
    assert_eq!(*bytes, [head, rest].concat().as_bytes());
    let steps =
        parse("! protocol http H\nH?~ POST /x @7 [1]\nH?~ GET /\nH=~ 201 {}").unwrap().steps;
    let What::Send { bytes, last: false } = &steps[0].what else { panic!("it is sent") };
    let head = "POST /x HTTP/1.1\r\nHost: localhost\r\nWorker-Id: 7\r\nContent-Type: \
                application/msgpack\r\nContent-Length: 2\r\n\r\n";
    assert_eq!(*bytes, [head.as_bytes(), b"\x91\x01"].concat());
    let What::Send { bytes, last: false } = &steps[1].what else { panic!("it is sent") };
    assert_eq!(bytes, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(format!("{:?}", steps[2].what), "Receive(Packed(201, \"{}\"))");
    for wrong in ["H? GET", "H?j GET", "H?~ GET", "H?~ POST / {", "H=~ x", "H= x", "H<~ a", "H="] {
        parse(&format!("! protocol http H\n{wrong}")).unwrap_err();
    }
}

#[test]
fn invalid_line_is_named() {
    for wrong in ["A", "A|", "A| dance", "a> x", "A>x", "A..", "! max-request x", "! x 1", "@ 5s"] {
        let problem = parse(&format!("# fine\n{wrong}\n")).unwrap_err();
        assert!(problem.starts_with("line 2"), "{wrong}: {problem}");
    }
}
