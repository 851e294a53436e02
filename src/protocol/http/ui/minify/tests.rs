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
fn slash_is_a_division_or_begins_a_pattern() {
    assert_eq!(script("if (a) /b  c/.test(d);"), "if(a)/b  c/.test(d);");
    assert_eq!(script("if (a) ; else /b  c/.test(d);"), "if(a);else/b  c/.test(d);");
    assert_eq!(script("await /b  c/.test(d);"), "await/b  c/.test(d);");
    assert_eq!(script("(a) / b / c; f(a)  / b;"), "(a)/b/c;f(a)/b;");
    // The name of a property is no keyword.
    assert_eq!(script("let bb = 1; a.in / bb / c; a.return / bb;"), "let b=1;a.in/b/c;a.return/b;");
    for either in ["a++ / b; c / d", "a-- / b", "for (a of / b /) c", "{}\n/ a /"] {
        assert!(scripts(&[("a.js", either)]).unwrap_err().contains("two things"), "{either}");
    }
}

#[test]
fn what_is_left_out_joins_no_words_and_statements() {
    assert_eq!(script("f(async(one) => one);"), "f(async a=>a);");
    assert_eq!(script("() => { return(one) => one; }"), "()=>{return a=>a}");
    assert_eq!(script("const one = 1\nf();\nconst two = 2;"), "let a=1\nf();let b=2;");
    assert_eq!(script("x = function () { a; }\nb();"), "x=function(){a}\nb();");
    assert_eq!(script("x = async function* y1() {}\nb();"), "x=async function*y1(){}\nb();");
    assert_eq!(script("function one() {}\nb();"), "function a(){}b();");
    assert_eq!(script("{ if (a) b; else ; }"), "{if(a)b;else;}");
    assert_eq!(script("f({ undefined }, { a, undefined });"), "f({undefined},{a,undefined});");
    assert_eq!(script("a < !--b"), "a< !--b");
}

#[test]
fn names_of_others_stay() {
    // What no function declares is of the browser, whatever is around it.
    assert_eq!(script("try { a(); } catch { post(b); }"), "try{a()}catch{post(b);}");
    assert_eq!(
        script("a.catch(post); a.let(post); a.class(post);"),
        "a.catch(post);a.let(post);a.class(post);"
    );
    assert_eq!(script("try { a(); } catch (one) { post(one); }"), "try{a()}catch(b){post(b)}");
    assert_eq!(script("const x1 = 1; x1: for (;;) break x1;"), "let a=1;a:for(;;)break a;");
    assert_eq!(
        script("const y = 1; f({ y() { y; }, get y() { y; }, [y]: y, 'y': y, y: 2 });"),
        "let a=1;f({y(){a},get y(){a},[a]:a,'y':a,y:2});"
    );
    assert_eq!(
        script("const y = 1; f(`\\${y} ${`${y}`} y`, 'y', /y/, a.y, a?.y, a?.[y]);"),
        "let b=1;f(`\\${y} ${`${b}`} y`,'y',/y/,a.y,a?.y,a?.[b]);"
    );
}

#[test]
fn statements_end_where_they_did() {
    assert_eq!(script("a\n++\nb"), "a\n++\nb");
    assert_eq!(script("return\n  a\n"), "return\na");
    assert_eq!(script("f(\n  a,\n  b,\n);\nif (a)\n  b();"), "f(a,b);if(a)\nb();");
    assert_eq!(script("if (a) { b; }\nc;"), "if(a){b}c;");
    assert_eq!(script("a = () => { b; }\nc;"), "a=()=>{b}\nc;");
    assert_eq!(script("a = { b() {} }\nc;"), "a={b(){}}\nc;");
    assert_eq!(script("{ while (a()); }"), "{while(a());}");
    assert_eq!(script("f([, a,], [a, ,], {\n  a,\n});"), "f([,a],[a,,],{a});");
    assert_eq!(script("a + +b - -c; d = 1 .e; case 'f': g"), "a+ +b- -c;d=1 .e;case'f':g");
}

#[test]
fn names_are_shortened_where_they_name_nothing_else() {
    assert_eq!(script("const long = 1; f(long);"), "let a=1;f(a);");
    assert_eq!(script("const long = 1; f({ long });"), "let a=1;f({long:a});");
    assert_eq!(script("const long = 1; f.long; f?.long;"), "let a=1;f.long;f?.long;");
    assert_eq!(script("const long = 1; f(g ? long : 2);"), "let a=1;f(g?a:2);");
    assert_eq!(script("const long = { long() { long; } };"), "let a={long(){a}};");
    assert_eq!(script("f(() => { let one, long = 1; });"), "f(()=>{let a,b=1});");
    assert_eq!(script("f(({ long = 1, b: other }) => long);"), "f(({long:a=1,b:b})=>a);");
    assert_eq!(script("const long = 1; f({ a: 2 * long, b: 1 });"), "let a=1;f({a:2*a,b:1});");
    assert_eq!(script("const long = 1; f(...long);"), "let a=1;f(...a);");
    assert_eq!(script("const long = { long: 1 };"), "let a={long:1};");
    assert_eq!(script("g((first, second) => `${first}`);"), "g((a,b)=>`${a}`);");
    assert_eq!(script("const { long } = g; status(long);"), "let{long:a}=g;status(a);");
    assert_eq!(script("g((event) => Math.max(event));"), "g(a=>Math.max(a));");
    assert!(scripts(&[("a.js", "while (a) b\nc\n{ d }")]).unwrap_err().contains("two things"));
    assert!(scripts(&[("a.js", "class A { field = 1; }")]).unwrap_err().contains("no method"));
}

#[test]
fn functions_share_names_where_neither_sees_the_other() {
    assert_eq!(script("f((one) => one, (two) => two);"), "f(a=>a,a=>a);");
    assert_eq!(script("const top = 1; f((one) => one, (two) => top);"), "let a=1;f(a=>a,b=>a);");
    assert_eq!(
        script("f((one) => { const two = 1; g((one) => two); });"),
        "f(a=>{let b=1;g(a=>b)});"
    );
    assert_eq!(script("f((one) => g(`${one}${(two) => two}`));"), "f(a=>g(`${a}${a=>a}`));");
    // The second name may be the first one or another: the inner function may see both.
    assert_eq!(script("f((x) => { if (x) { const x = 2; } });"), "f(a=>{if(a){let a=2}});");
    assert_eq!(script("f((one) => h ? (two) => one : one);"), "f(a=>h?b=>a:a);");
    assert_eq!(script("f({ name(one) { one; }, other: 1 });"), "f({name(a){a},other:1});");
    assert_eq!(script("function one(two) { one(two); }"), "function a(b){a(b)}");
}

#[test]
fn a_word_means_the_variable_of_the_innermost_function() {
    let both = |text: &str| script(&format!("const y1 = 2; const x1 = 1; {text}"));
    assert_eq!(both("f((x1) => x1);"), "let a=2,b=1;f(a=>a);");
    assert_eq!(both("f(g ? (x1) => x1 : x1);"), "let a=2,b=1;f(g?a=>a:b);");
    assert_eq!(both("f((a1 = x1) => a1);"), "let a=2,b=1;f((a=b)=>a);");
    assert_eq!(both("f(({ a1, x1 = y1 }) => x1);"), "let a=2,b=1;f(({a1:b,x1:c=a})=>c);");
    assert_eq!(both("f(() => { const x1 = y1; x1; });"), "let a=2,b=1;f(()=>{let b=a;b});");
    // The block is left before the last word.
    assert_eq!(both("f(() => { { const x1 = 3; } x1; });"), "let a=2,b=1;f(()=>{{let b=3}b});");
    assert_eq!(
        script("f(() => { const one = 1, { two: three } = one, [four] = g; four(three); });"),
        "f(()=>{let a=1,{two:b}=a,[c]=g;c(b)});"
    );
}

#[test]
fn names_that_nothing_uses_are_known() {
    let first = ("a.js", "export const one = { two: 1 };\nfunction three() {}\n");
    let second = ("b.js", "import { one } from \"b.js\";\nconst two = one;\ntwo.three();\n");
    assert_eq!(unused(&[first, second]).unwrap(), ["three"]);
}

#[test]
fn words_of_the_language_are_shortened() {
    assert_eq!(script("const one = true;\nconst two = undefined; f();"), "let a=!0,b=void 0;f();");
    assert_eq!(script("for (const one of x) { const y = one; }"), "for(let a of x){let b=a}");
    assert_eq!(script("if (a) { const b1 = 1; } const c1 = 2;"), "if(a){let b=1}let c=2;");
    assert_eq!(script("f.true; f({ true: false }); return true;"), "f.true;f({true:!1});return!0;");
    assert_eq!(script("async (one) => one"), "async a=>a");
}

#[test]
fn modules_share_one_scope() {
    let first = ("a.js", "import { x } from \"./b.js\";\nexport const one = 1;\n");
    let second = ("b.js", "export function two() { one; }");
    assert_eq!(scripts(&[first, second]).unwrap(), "let a=1;function b(){a}\n");
    assert!(scripts(&[first, first]).unwrap_err().contains("`one` is a name of a.js, too"));
    assert_eq!(imports(first.1).collect::<Vec<_>>(), ["b.js"]);
}

#[test]
fn style_keeps_its_meaning() {
    let text = "/* x */\n.a > b, c :hover {\n  color: red; margin: calc(1px + (2px)) 0;\n}\n";
    let short = ".a>b,c :hover{color:red;margin:calc(1px + (2px)) 0}\n";
    assert_eq!(style(text).unwrap(), short);
    let text = "@media (max-width: 3px) { .d::before { content: \"a  ; b\"; } }";
    let short = "@media (max-width:3px){.d::before{content:\"a  ; b\"}}\n";
    assert_eq!(style(text).unwrap(), short);
    let text = "a { color: #ffffff; --b: #ffeedd80 #aabbc0 }";
    assert_eq!(style(text).unwrap(), "a{color:#fff;--b:#ffeedd80 #aabbc0}\n");
    let text = ":root { --ink: red; --ink-2: blue; } a { color: var(--ink-2) }";
    assert_eq!(style(text).unwrap(), ":root{--ink:red;--a:blue}a{color:var(--a)}\n");
}
