//! Archives in the format of POSIX `ustar`, written and read piece by piece: regular files only.

/// Archives are made of blocks of this many bytes.
pub const BLOCK: usize = 512;

/// Writes the header of a file, whose content and padding follow. `modified` in Unix seconds.
///
/// # Panics
/// If the name has more than 99 bytes, or the file more than 8 GiB.
pub fn push_header(out: &mut Vec<u8>, name: &str, size: u64, modified: u64) {
    assert!(name.len() < 100 && size < 1 << 33, "a file does not fit into an archive");
    let start = out.len();
    out.extend_from_slice(name.as_bytes());
    out.resize(start + 100, 0);
    // Mode, owner, group, size, time of the last change: octal digits.
    for (number, digits) in [(0o600, 7), (0, 7), (0, 7), (size, 11), (modified, 11)] {
        out.extend_from_slice(format!("{number:0digits$o}\0").as_bytes());
    }
    // The checksum counts itself as spaces.
    out.extend_from_slice(b"        0");
    out.resize(start + 257, 0);
    out.extend_from_slice(b"ustar\x0000");
    out.resize(start + BLOCK, 0);
    let sum: u64 = out[start..].iter().map(|&byte| u64::from(byte)).sum();
    out[start + 148..start + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// Writes the padding behind a file of this many bytes.
pub fn push_padding(out: &mut Vec<u8>, size: u64) {
    // Proof: the rest is below 512.
    let rest = usize::try_from(size % BLOCK as u64).expect("the rest of a block is small");
    if rest > 0 {
        out.resize(out.len() + BLOCK - rest, 0);
    }
}

/// Writes the end of the archive.
pub fn push_end(out: &mut Vec<u8>) {
    out.resize(out.len() + 2 * BLOCK, 0);
}

/// A file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its name, as it is in the archive.
    pub name: String,
    /// How many bytes follow, before the padding.
    pub size: u64,
}

/// Reads the header of a file. `None`: the archive ends here.
///
/// # Errors
/// A phrase: it is no header, or not that of a regular file.
pub fn parse_header(block: &[u8; BLOCK]) -> Result<Option<Header>, String> {
    if block.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    let sum: u64 = block.iter().map(|&byte| u64::from(byte)).sum();
    let own: u64 = block[148..156].iter().map(|&byte| u64::from(byte)).sum();
    // The checksum counts itself as spaces.
    if octal(&block[148..156]) != Some(sum - own + 8 * u64::from(b' ')) {
        return Err("a header has a wrong checksum".to_owned());
    }
    if !matches!(block[156], b'0' | 0) {
        return Err("it has something that is no file".to_owned());
    }
    let end = block[..100].iter().position(|&byte| byte == 0).unwrap_or(100);
    let name = std::str::from_utf8(&block[..end]).map_err(|_| "a name is no text".to_owned())?;
    let size = octal(&block[124..136]).ok_or_else(|| "a size is no number".to_owned())?;
    Ok(Some(Header { name: name.to_owned(), size }))
}

/// A number in octal digits, with blanks and zero bytes around it.
fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    u64::from_str_radix(text, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_read_as_it_was_written() {
        let mut out = Vec::new();
        push_header(&mut out, "0001.journal", 8_000_000_000, 17);
        let block: [u8; BLOCK] = out.try_into().unwrap();
        let header = Header { name: "0001.journal".to_owned(), size: 8_000_000_000 };
        assert_eq!(parse_header(&block), Ok(Some(header)));
        assert_eq!(parse_header(&[0; BLOCK]), Ok(None));
        for place in [0, 130, 150, 156, 300] {
            let mut wrong = block;
            wrong[place] ^= 1;
            assert!(parse_header(&wrong).is_err(), "{place}");
        }
    }

    #[test]
    fn header_is_that_of_ustar() {
        let mut out = Vec::new();
        push_header(&mut out, "lock", 5, 0o17);
        assert_eq!(out.len(), BLOCK);
        assert_eq!(out[..6], *b"lock\0\0");
        assert_eq!(out[100..108], *b"0000600\0");
        assert_eq!(out[124..148], [b"00000000005\0".as_slice(), b"00000000017\0"].concat());
        assert_eq!(out[156..158], *b"0\0");
        assert_eq!(out[257..265], *b"ustar\x0000");
        let mut blank = out.clone();
        blank[148..156].fill(b' ');
        let sum: u32 = blank.iter().map(|&byte| u32::from(byte)).sum();
        assert_eq!(out[148..156], *format!("{sum:06o}\0 ").as_bytes());
        out.extend_from_slice(b"used\n");
        push_padding(&mut out, 5);
        assert_eq!(out.len(), 2 * BLOCK);
        push_padding(&mut out, 1024);
        push_end(&mut out);
        assert_eq!(out.len(), 4 * BLOCK);
    }
}
