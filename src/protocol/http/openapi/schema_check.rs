//! Checks a value against a schema: the part of JSON Schema that the document uses. An unknown
//! keyword is an error, so nothing is skipped.

use serde_json::{Map, Value};

/// Asserts that the value fits, or says what does not, and where.
pub(super) fn fits(schema: &Value, value: &Value, document: &Value) -> Result<(), String> {
    let words = schema.as_object().ok_or("a schema is an object")?;
    for (word, says) in words {
        let ok = match word.as_str() {
            "description" | "format" | "default" => true,
            "$ref" => {
                let place = says.as_str().unwrap().strip_prefix('#').unwrap();
                let target =
                    document.pointer(place).ok_or_else(|| format!("{place} is not there"))?;
                fits(target, value, document)?;
                true
            }
            "type" => match says {
                Value::Array(kinds) => kinds.iter().any(|kind| is_kind(kind, value)),
                kind => is_kind(kind, value),
            },
            "enum" => says.as_array().unwrap().contains(value),
            "pattern" => {
                assert_eq!(says, "^[0-9]+$");
                let text = value.as_str().unwrap_or_default();
                !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
            }
            "minimum" => value.as_f64() >= says.as_f64(),
            "maximum" => value.as_f64() <= says.as_f64(),
            "exclusiveMinimum" => value.as_f64() > says.as_f64(),
            "maxProperties" => value.as_object().map(|map| map.len() as u64) <= says.as_u64(),
            "minLength" => value.as_str().map(|text| text.chars().count() as u64) >= says.as_u64(),
            "minItems" => value.as_array().map(|items| items.len() as u64) >= says.as_u64(),
            "maxItems" => value.as_array().map(|items| items.len() as u64) <= says.as_u64(),
            "oneOf" => {
                let options = says.as_array().unwrap().iter();
                options.filter(|option| fits(option, value, document).is_ok()).count() == 1
            }
            "prefixItems" => {
                let mut pairs = says.as_array().unwrap().iter().zip(value.as_array().unwrap());
                pairs.try_for_each(|(schema, item)| fits(schema, item, document))?;
                true
            }
            "items" => fits_items(words, says, value, document)?,
            "required" => {
                let mut names = says.as_array().unwrap().iter();
                names.all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "properties" => {
                for (name, schema) in says.as_object().unwrap() {
                    if let Some(member) = value.get(name) {
                        fits(schema, member, document).map_err(|why| format!("{name}: {why}"))?;
                    }
                }
                true
            }
            "additionalProperties" => {
                assert_eq!(says, false);
                let known = words.get("properties");
                let mut names = value.as_object().ok_or("no object")?.keys();
                names.all(|name| known.is_some_and(|known| known.get(name).is_some()))
            }
            other => return Err(format!("the word {other} is not known")),
        };
        if !ok {
            return Err(format!("{value} does not fit {word} {says}"));
        }
    }
    Ok(())
}

/// The keyword `items`: `schema` is that of each item.
fn fits_items(
    words: &Map<String, Value>,
    schema: &Value,
    value: &Value,
    document: &Value,
) -> Result<bool, String> {
    if *schema == false {
        // With `maxItems` there are no items beyond the first ones.
        return Ok(words.contains_key("maxItems"));
    }
    let mut items = value.as_array().ok_or("no array")?.iter();
    items.try_for_each(|item| fits(schema, item, document))?;
    Ok(true)
}

fn is_kind(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        other => panic!("there is no type {other}"),
    }
}
