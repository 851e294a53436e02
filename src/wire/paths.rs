//! Values at many paths of one value, found in one walk through it.
//!
//! Invariants: each is found as if it was searched for alone: of duplicate names the last one
//! counts, with all inside it.

use super::Leaf;
use std::collections::BTreeMap;

/// A number of no place.
const NONE: usize = usize::MAX;

/// Places by their names, from the outside in: a tree of names.
#[derive(Clone, Debug, PartialEq)]
pub struct Paths {
    nodes: Vec<Node>,
    wanted: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Node {
    children: BTreeMap<Box<[u8]>, usize>,
    /// Its number among those that are wanted.
    number: usize,
}

impl Default for Paths {
    fn default() -> Self {
        Self { nodes: vec![Node { children: BTreeMap::new(), number: NONE }], wanted: 0 }
    }
}

impl Paths {
    /// The whole value.
    pub(super) const ROOT: usize = 0;

    /// One more place is wanted. O(names * log of their neighbours).
    pub fn add<K: AsRef<str>>(&mut self, path: &[K]) {
        let mut node = Self::ROOT;
        for name in path {
            let name = name.as_ref().as_bytes();
            node = self.child(node, name).unwrap_or_else(|| {
                let child = self.nodes.len();
                self.nodes.push(Node { children: BTreeMap::new(), number: NONE });
                self.nodes[node].children.insert(name.into(), child);
                child
            });
        }
        if !self.is_wanted(node) {
            self.nodes[node].number = self.wanted;
            self.wanted += 1;
        }
    }

    /// Where a name leads. O(log of its neighbours).
    pub(super) fn child(&self, node: usize, name: &[u8]) -> Option<usize> {
        self.nodes[node].children.get(name).copied()
    }

    /// Whether something within is wanted.
    pub(super) fn leads_on(&self, node: usize) -> bool {
        !self.nodes[node].children.is_empty()
    }

    pub(super) fn is_wanted(&self, node: usize) -> bool {
        self.nodes[node].number != NONE
    }
}

/// What stands at these places.
#[derive(Clone, Debug)]
pub struct Found<'a> {
    /// Where the last value with the name of each node began, counted from 1.
    begun: Vec<usize>,
    leaves: Vec<Leaf<'a>>,
}

impl<'a> Found<'a> {
    /// Nothing. O(names of all places).
    #[must_use]
    pub fn nothing(paths: &Paths) -> Self {
        Self { begun: vec![0; paths.nodes.len()], leaves: vec![Leaf::Nil; paths.wanted] }
    }

    /// A value of this name begins there.
    pub(super) fn begin(&mut self, node: usize, start: usize) {
        self.begun[node] = start + 1;
    }

    /// The value of this node; `leaf` is called only if a path ends there.
    pub(super) fn set(&mut self, paths: &Paths, node: usize, leaf: impl FnOnce() -> Leaf<'a>) {
        if let Some(place) = self.leaves.get_mut(paths.nodes[node].number) {
            *place = leaf();
        }
    }

    /// What stands at a place that was added before the walk. O(names * log of their neighbours).
    #[must_use]
    pub fn at<K: AsRef<str>>(&self, paths: &Paths, path: &[K]) -> Option<&Leaf<'a>> {
        let (mut node, mut begun) = (Paths::ROOT, self.begun[Paths::ROOT]);
        for name in path {
            node = paths.child(node, name.as_ref().as_bytes())?;
            // What began before that in which it should be is in an earlier one of the same name.
            if self.begun[node] <= begun {
                return None;
            }
            begun = self.begun[node];
        }
        if begun == 0 { None } else { self.leaves.get(paths.nodes[node].number) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;
    use crate::wire::{json, msgpack};

    /// A value that is looked into by hand.
    enum Tree {
        Number(u64),
        List(u64),
        Map(Vec<(&'static str, Self)>),
    }

    impl Tree {
        fn any(rng: &mut Rng, depth: u64) -> Self {
            match rng.below(6) {
                0 => Self::Number(rng.below(100)),
                1 => Self::List(rng.below(100)),
                _ if depth == 0 => Self::Number(rng.below(100)),
                _ => {
                    let pairs = 0..rng.below(5);
                    let names = ["a", "b", "c"];
                    let pair = |_| {
                        let name = names[usize::try_from(rng.below(3)).unwrap()];
                        (name, Self::any(rng, depth - 1))
                    };
                    Self::Map(pairs.map(pair).collect())
                }
            }
        }

        fn json(&self) -> String {
            match self {
                Self::Number(number) => number.to_string(),
                Self::List(number) => format!("[{{\"a\": {number}}}, [] ]"),
                Self::Map(pairs) => {
                    let pair = |(number, (name, tree)): (usize, &(&str, Self))| {
                        let name = if number == 1 && *name == "a" { "\\u0061" } else { name };
                        format!("\"{name}\" :{}", tree.json())
                    };
                    let pairs: Vec<String> = pairs.iter().enumerate().map(pair).collect();
                    format!("{{{}}}", pairs.join(", "))
                }
            }
        }

        fn at(&self, path: &[&str]) -> Option<&Self> {
            let [name, within @ ..] = path else { return Some(self) };
            let Self::Map(pairs) = self else { return None };
            pairs.iter().rev().find(|(own, _)| own == name)?.1.at(within)
        }

        fn is(&self, leaf: &Leaf<'_>) -> bool {
            match (self, leaf) {
                (Self::Number(number), Leaf::Integer(found)) => i128::from(*number) == *found,
                (_, Leaf::Other(bytes)) => *bytes == self.json().as_bytes(),
                _ => false,
            }
        }
    }

    #[test]
    fn many_places_are_found_in_one_walk_as_each_alone() {
        let mut rng = Rng::new(3);
        let mut found_some = [0; 2];
        for _ in 0..5_000 {
            let tree = Tree::any(&mut rng, 4);
            let text = tree.json();
            let mut packed = Vec::new();
            msgpack::from_json(text.as_bytes(), &mut packed).unwrap();
            let mut wanted = Vec::new();
            for _ in 0..rng.below(12) {
                let length = rng.below(4);
                let mut name = |_| ["a", "b", "c", "d"][usize::try_from(rng.below(4)).unwrap()];
                let path: Vec<&str> = (0..length).map(&mut name).collect();
                wanted.push(path);
            }
            let mut paths = Paths::default();
            for path in &wanted {
                paths.add(path);
            }
            let in_text = json::find(text.as_bytes(), &paths);
            let in_bytes = msgpack::find(&packed, &paths);
            for path in &wanted {
                let (leaf, expected) = (in_text.at(&paths, path), tree.at(path));
                let same = match (leaf, expected) {
                    (Some(leaf), Some(tree)) => tree.is(leaf),
                    (leaf, tree) => leaf.is_none() && tree.is_none(),
                };
                assert!(same, "{path:?} of {wanted:?} in {text}: {leaf:?}");
                let packed_leaf = in_bytes.at(&paths, path);
                match (leaf, packed_leaf) {
                    (Some(Leaf::Other(text)), Some(Leaf::Other(bytes))) => {
                        let mut again = Vec::new();
                        msgpack::from_json(text, &mut again).unwrap();
                        assert_eq!(again, *bytes);
                    }
                    (leaf, packed_leaf) => assert_eq!(leaf, packed_leaf, "{path:?} in {text}"),
                }
                found_some[usize::from(leaf.is_some())] += 1;
            }
            let cut = usize::try_from(rng.below(text.len() as u64)).unwrap();
            let _ = json::find(&text.as_bytes()[..cut], &paths);
            let _ = msgpack::find(&packed[..cut.min(packed.len())], &paths);
        }
        assert!(found_some.iter().all(|&count| count > 2_000), "{found_some:?}");
    }
}
