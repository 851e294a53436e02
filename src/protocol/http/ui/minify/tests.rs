//! Tests of what the build makes of scripts and style sheets.

use super::*;

fn script(text: &str) -> String {
    scripts(&[("a.js", text)]).unwrap().trim_end().to_owned()
}

#[test]
fn text_in_quotes_stays() {
    for same in [
        r#"f("a  //b \" /* c */");"#,
        "f(`a  ${b(`//  ${c}`)}  /*d*/ }`);",
        r#"f(/[/"']\/  x/gu);"#,
    ] {
        assert_eq!(script(same), same);
    }
    assert_eq!(script("a = b / c; // d / e\n/* f */ g = h;"), "a=b/c;g=h;");
}

#[test]
fn statements_end_where_they_did() {
    assert_eq!(script("a\n++\nb"), "a\n++\nb");
    assert_eq!(script("return\n  a\n"), "return\na");
    assert_eq!(script("f(\n  a,\n  b,\n);\nif (a)\n  b();"), "f(a,b,);if(a)\nb();");
    assert_eq!(script("a + +b - -c; d = 1 .e; case 'f': g"), "a+ +b- -c;d=1 .e;case'f':g");
}

#[test]
fn names_are_shortened_where_they_name_nothing_else() {
    assert_eq!(script("const long = 1; f(long);"), "let a=1;f(a);");
    assert_eq!(script("const long = 1; f({ long });"), "let a=1;f({long:a});");
    assert_eq!(script("const long = 1; f.long; f?.long;"), "let a=1;f.long;f?.long;");
    assert_eq!(script("const long = 1; f(g ? long : 2);"), "let a=1;f(g?a:2);");
    assert_eq!(script("const long = { long() { long; } };"), "let a={long(){a;}};");
    assert_eq!(script("f(() => { let one, long = 1; });"), "f(()=>{let b,a=1;});");
    assert_eq!(script("f(({ long = 1, b: other }) => long);"), "f(({long:a=1,b:b})=>a);");
    assert_eq!(script("const long = 1; f(...long);"), "let a=1;f(...a);");
    assert_eq!(script("const long = { long: 1 };"), "let a={long:1};");
    assert_eq!(script("g((first, second) => `${first}`);"), "g((a,b)=>`${a}`);");
    assert_eq!(script("const { long } = g; status(long);"), "let{long:a}=g;status(a);");
    assert!(scripts(&[("a.js", "while (a) b\nc\n{ d }")]).unwrap_err().contains("two things"));
    assert!(scripts(&[("a.js", "class A { field = 1; }")]).unwrap_err().contains("no method"));
}

#[test]
fn modules_share_one_scope() {
    let first = ("a.js", "import { x } from \"./b.js\";\nexport const one = 1;\n");
    let second = ("b.js", "export function two() { one; }");
    assert_eq!(scripts(&[first, second]).unwrap(), "let a=1;function b(){a;}\n");
    assert!(scripts(&[first, first]).unwrap_err().contains("`one` is a name of a.js, too"));
    assert_eq!(imports(first.1).collect::<Vec<_>>(), ["b.js"]);
}

#[test]
fn style_keeps_its_meaning() {
    let text = "/* x */\n.a > b, c :hover {\n  color: red; margin: calc(1px + (2px)) 0;\n}\n";
    let short = ".a > b,c :hover{color:red;margin:calc(1px + (2px)) 0}\n";
    assert_eq!(style(text).unwrap(), short);
    let text = "@media (max-width: 3px) { .d::before { content: \"a  ; b\"; } }";
    let short = "@media (max-width:3px){.d::before{content:\"a  ; b\"}}\n";
    assert_eq!(style(text).unwrap(), short);
    let text = ":root { --ink: red; --ink-2: blue; } a { color: var(--ink-2) }";
    assert_eq!(style(text).unwrap(), ":root{--ink:red;--a:blue}a{color:var(--a)}\n");
}
