//! Which file of a crate uses which other: read from its paths, with re-exports followed.
//!
//! A path `crate::a::X` leads to the file that defines `X`, not to the `mod.rs` that shows it, and
//! a `mod.rs` that shows what its own modules define does not depend on them. What tests use is
//! left out.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, Source, is_word};

/// Re-exports that are followed one behind another.
const DEPTH: usize = 16;

/// The modules of one crate.
pub(crate) struct Crate {
    /// Files by module: `["a", "b"]` is `a/b.rs` or `a/b/mod.rs`, `[]` is `lib.rs`.
    modules: BTreeMap<Vec<String>, Module>,
}

struct Module {
    file: String,
    /// Everything that is brought into scope: name, absolute path, line.
    names: Vec<Name>,
    /// All paths into the crate that the code names, absolute, with their lines.
    paths: Vec<(Vec<String>, usize)>,
}

struct Name {
    name: String,
    path: Vec<String>,
    is_public: bool,
}

/// One file that uses another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Use {
    pub(crate) from: String,
    pub(crate) to: String,
    /// The first line that does, from 1.
    pub(crate) line: usize,
}

impl Crate {
    /// Reads the files whose path starts with `root`, which ends in `src/`.
    pub(crate) fn read(root: &str, files: &[File]) -> Self {
        let mut modules = BTreeMap::new();
        for file in files.iter().filter(|file| file.path.starts_with(root)) {
            let Some(inner) = file.path[root.len()..].strip_suffix(".rs") else { continue };
            if super::is_test_file(&file.path) {
                continue;
            }
            let mut module: Vec<String> = inner.split('/').map(String::from).collect();
            if module.last().is_some_and(|last| last == "mod") || module == ["lib"] {
                module.pop();
            }
            let parsed = Module::read(&file.path, &module, file.source());
            modules.insert(module, parsed);
        }
        Self { modules }
    }

    /// Every use of another file, sorted; one for each pair of files.
    pub(crate) fn uses(&self) -> Vec<Use> {
        let mut found: BTreeMap<(String, String), usize> = BTreeMap::new();
        for (own, module) in &self.modules {
            for (path, line) in &module.paths {
                let Some(to) = self.file_of(path, DEPTH) else { continue };
                if to == module.file || self.is_shown(own, module, path) {
                    continue;
                }
                let first = found.entry((module.file.clone(), to.to_owned())).or_insert(*line);
                *first = (*line).min(*first);
            }
        }
        found.into_iter().map(|((from, to), line)| Use { from, to, line }).collect()
    }

    /// Whether `path` is what `module` only shows of its own modules.
    fn is_shown(&self, own: &[String], module: &Module, path: &[String]) -> bool {
        let below = path.len() > own.len() && path.starts_with(own);
        below && module.names.iter().any(|name| name.is_public && name.path == path)
    }

    /// The file that defines what `path` names.
    fn file_of(&self, path: &[String], depth: usize) -> Option<&str> {
        let most = (0..=path.len()).rev().find(|len| self.modules.contains_key(&path[..*len]))?;
        let module = self.modules.get(&path[..most])?;
        let next = path.get(most);
        let known = module.names.iter().filter(|name| Some(&name.name) == next);
        for name in known.filter(|_| depth > 0) {
            let rest = [&name.path[..], &path[most + 1..]].concat();
            if let Some(file) = self.file_of(&rest, depth - 1) {
                return Some(file);
            }
        }
        Some(&module.file)
    }
}

impl Module {
    fn read(file: &str, own: &[String], source: &Source) -> Self {
        let lines: Vec<(usize, &str)> = source.product_code().collect();
        let code: Vec<&str> = lines.iter().map(|(_, code)| *code).collect();
        let code = code.join("\n");
        let line_at = |at: usize| lines[code[..at].matches('\n').count()].0;
        let mut module = Self { file: file.to_owned(), names: Vec::new(), paths: Vec::new() };
        for (at, _) in code.match_indices("mod ") {
            let name = word(&code[at + 4..]);
            let is_file = code[at + 4 + name.len()..].starts_with(';');
            if starts_word(&code, at) && is_file && !name.is_empty() {
                let path = [own, &[name.to_owned()]].concat();
                module.names.push(Name { name: name.to_owned(), path, is_public: false });
            }
        }
        for (name, policy) in registered(&code) {
            let path = [own, &[name.to_owned()]].concat();
            let shown = [&path[..], &[policy.to_owned()]].concat();
            module.names.push(Name { name: name.to_owned(), path, is_public: false });
            module.names.push(Name { name: policy.to_owned(), path: shown, is_public: true });
        }
        // `use` brings names into scope, which paths in code may start with.
        for (at, _) in code.match_indices("use ") {
            if !starts_word(&code, at) {
                continue;
            }
            let statement = code[at + 4..].split(';').next().unwrap_or_default();
            let is_public = code[..at].trim_end().ends_with("pub")
                || code[..at].trim_end().ends_with(')') && code[..at].contains("pub(");
            for (path, name) in tree(statement) {
                let Some(path) = module.absolute(own, &path) else { continue };
                module.paths.push((path.clone(), line_at(at)));
                module.names.push(Name { name, path, is_public });
            }
        }
        // Paths in code start with `crate`, `super`, `self` or a name that is in scope.
        for (at, _) in code.match_indices("::") {
            let Some((start, segments)) = path_around(&code, at) else { continue };
            let is_visibility = code[..start].ends_with("pub(in ");
            if let Some(path) = module.absolute(own, &segments).filter(|_| !is_visibility) {
                module.paths.push((path, line_at(start)));
            }
        }
        module
    }

    /// `path` from the root of the crate; `None` when it leads out of it.
    fn absolute(&self, own: &[String], path: &[String]) -> Option<Vec<String>> {
        let supers = path.iter().take_while(|part| *part == "super").count();
        let rest = &path[supers..];
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "super" => Some([own.get(..own.len().checked_sub(supers)?)?, rest].concat()),
            "self" => Some([own, &path[1..]].concat()),
            first => {
                let name = self.names.iter().find(|name| name.name == first)?;
                Some([&name.path[..], &path[1..]].concat())
            }
        }
    }
}

/// The lines of registries, `"name" => module::Policy,`: each declares the module and shows the
/// policy.
fn registered(code: &str) -> impl Iterator<Item = (&str, &str)> {
    let groups = ["policies {", "unlisted {"].into_iter().flat_map(move |group| {
        code.match_indices(group).map(move |(at, _)| &code[at + group.len()..])
    });
    let lines = groups.flat_map(|rest| rest.split('}').next().unwrap_or_default().split("=>"));
    lines.skip(1).filter_map(|line| {
        let (module, policy) = line.trim().split_once("::")?;
        Some((word(module), word(policy)))
    })
}

fn word(text: &str) -> &str {
    &text[..text.chars().take_while(|c| is_word(*c)).map(char::len_utf8).sum()]
}

fn starts_word(code: &str, at: usize) -> bool {
    !code[..at].chars().next_back().is_some_and(|c| is_word(c) || c == ':')
}

/// The paths of a use tree, each with the name that it brings into scope.
fn tree(text: &str) -> Vec<(Vec<String>, String)> {
    let text = text.trim();
    let Some(open) = text.find('{') else {
        let (path, alias) = text.split_once(" as ").unwrap_or((text, ""));
        let mut parts: Vec<String> = path.split("::").map(|part| part.trim().to_owned()).collect();
        let is_self = parts.len() > 1 && parts.last().is_some_and(|last| last == "self");
        if is_self || parts.last().is_some_and(|last| last == "*" || last.is_empty()) {
            parts.pop();
        }
        let last = parts.last().cloned().unwrap_or_default();
        let name = if alias.is_empty() { last } else { alias.trim().to_owned() };
        return if parts.is_empty() { Vec::new() } else { vec![(parts, name)] };
    };
    let front = &text[..open];
    let inside = &text[open + 1..text.rfind('}').unwrap_or(text.len())];
    let (mut depth, mut start, mut found) = (0usize, 0, Vec::new());
    for (at, c) in inside.char_indices().chain([(inside.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                if !inside[start..at].trim().is_empty() {
                    found.extend(tree(&format!("{front}{}", inside[start..at].trim())));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The path whose first `::` stands at `at`, with where it starts; `None` for a later `::`.
fn path_around(code: &str, at: usize) -> Option<(usize, Vec<String>)> {
    let before = code[..at].chars().rev().take_while(|c| is_word(*c));
    let start = at - before.map(char::len_utf8).sum::<usize>();
    if start == at || !starts_word(code, start) {
        return None;
    }
    let mut segments = vec![code[start..at].to_owned()];
    let mut rest = &code[at..];
    while let Some(behind) = rest.strip_prefix("::") {
        let next = word(behind);
        if next.is_empty() {
            break;
        }
        segments.push(next.to_owned());
        rest = &behind[next.len()..];
    }
    (segments.len() > 1).then_some((start, segments))
}

/// The files that use `file`, directly or through others, and `file` itself.
pub(crate) fn users<'a>(uses: &'a [Use], file: &'a str) -> BTreeSet<&'a str> {
    let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for arrow in uses {
        before.entry(&arrow.to).or_default().push(&arrow.from);
    }
    reach(&before, file).into_iter().chain([file]).collect()
}

/// Files in circles: each a set of files that use one another, sorted.
pub(crate) fn circles(uses: &[Use]) -> Vec<Vec<String>> {
    let mut after: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for arrow in uses {
        after.entry(&arrow.from).or_default().push(&arrow.to);
    }
    let reached: BTreeMap<&str, _> =
        after.keys().map(|file| (*file, reach(&after, file))).collect();
    let mut found: Vec<Vec<String>> = Vec::new();
    for (file, own) in &reached {
        if !own.contains(file) || found.iter().flatten().any(|known| known == file) {
            continue;
        }
        let back = |other: &&&str| reached.get(**other).is_some_and(|its| its.contains(file));
        found.push(own.iter().filter(back).map(|other| (*other).to_owned()).collect());
    }
    found
}

/// Every file that `from` uses, and that those use, and so on.
fn reach<'a>(after: &BTreeMap<&str, Vec<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(file) = open.pop() {
        let next = after.get(file).into_iter().flatten().copied();
        open.extend(next.filter(|file| seen.insert(*file)));
    }
    seen
}
