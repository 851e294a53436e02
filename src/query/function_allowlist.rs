//! The SQLite functions that a query may call. Functions that are superlinear in the length of an
//! argument, and so could not be stopped in time, are reimplemented (`like`, `text_functions`) or
//! not allowed: `json_patch`, `json_pretty`, `unhex`. Random functions are not allowed.

/// Sorted by bytes.
const ALLOWED: [&str; 72] = [
    "->",
    "->>",
    "abs",
    "char",
    "coalesce",
    "concat",
    "concat_ws",
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "format",
    "glob",
    "hex",
    "if",
    "ifnull",
    "iif",
    "instr",
    "json",
    "json_array",
    "json_array_length",
    "json_canonical",
    "json_error_position",
    "json_extract",
    "json_insert",
    "json_object",
    "json_quote",
    "json_remove",
    "json_replace",
    "json_set",
    "json_type",
    "json_valid",
    "jsonb",
    "jsonb_array",
    "jsonb_extract",
    "jsonb_insert",
    "jsonb_object",
    "jsonb_remove",
    "jsonb_replace",
    "jsonb_set",
    "julianday",
    "length",
    "like",
    "likelihood",
    "likely",
    "lower",
    "ltrim",
    "max",
    "min",
    "nullif",
    "octet_length",
    "printf",
    "quote",
    "replace",
    "round",
    "rtrim",
    "sign",
    "strftime",
    "substr",
    "substring",
    "time",
    "timediff",
    "trim",
    "typeof",
    "unicode",
    "unistr",
    "unistr_quote",
    "unixepoch",
    "unlikely",
    "upper",
    "zeroblob",
];

/// Whether a query may call the function of this name. O(log n).
pub(super) fn is_allowed(function: &str) -> bool {
    let lower = function.to_ascii_lowercase();
    ALLOWED.binary_search(&lower.as_str()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allow_list_is_sorted_and_lookup_ignores_case() {
        assert!(ALLOWED.is_sorted());
        assert!(is_allowed("JSON_EXTRACT") && is_allowed("->>"));
        assert!(!is_allowed("load_extension") && !is_allowed("json_patch"));
    }
}
