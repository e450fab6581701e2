//! A path query or a pattern, kept up to date by differential-dataflow: `differential CHANGES path STEP...` or
//! `differential CHANGES pattern ATOM...`. The module `rpq.workloads.rivals` describes the files, steps, atoms and output.
//!
//! One worker, a time for each slide. Joins stand in the order of the text over shared arrangements; what a path reaches is
//! distinct before and in a closure and at the end, and a chain of plain steps only at the end.

use std::cell::Cell;
use std::io::Write;
use std::rc::Rc;

use differential_dataflow::input::{Input, InputSession};
use differential_dataflow::operators::*;
use differential_dataflow::VecCollection;
use timely::dataflow::operators::probe::Handle;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Vertex = u32;
type Slide = u64;
type Pairs<'scope> = VecCollection<'scope, Slide, (Vertex, Vertex)>;
/// The values of the variables of a pattern, 0 for those that are not bound yet.
type Binding = [Vertex; 6];

struct Change {
    slide: Slide,
    diff: isize,
    source: Vertex,
    label: usize,
    target: Vertex,
}

fn read(path: &str) -> Vec<Change> {
    let text = std::fs::read_to_string(path).expect("the file of changes");
    text.lines()
        .map(|line| {
            let mut cells = line.split('\t');
            let mut next = || cells.next().expect("five cells");
            Change {
                slide: next().parse().expect("a slide"),
                diff: if next() == "+" { 1 } else { -1 },
                source: next().parse().expect("a vertex"),
                label: next().parse().expect("a label"),
                target: next().parse().expect("a vertex"),
            }
        })
        .collect()
}

fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn checksum(row: &[Vertex]) -> u64 {
    row.iter().fold(0, |hash, &value| {
        let mixed = (hash ^ u64::from(value)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ (mixed >> 32)
    })
}

struct Step {
    labels: Vec<usize>,
    repetition: char, // ' ' for one edge, '+' or '*'
}

fn step(text: &str) -> Step {
    let (labels, repetition) = match text.chars().last() {
        Some(last @ ('+' | '*')) => (&text[..text.len() - 1], last),
        _ => (text, ' '),
    };
    Step { labels: labels.split('|').map(|label| label.parse().expect("a label")).collect(), repetition }
}

fn union<'scope>(edges: &[Pairs<'scope>], labels: &[usize]) -> Pairs<'scope> {
    let (first, others) = labels.split_first().expect("a label");
    edges[*first].clone().concatenate(others.iter().map(|label| edges[*label].clone()))
}

/// Extend pairs (reached, root) by any number of edges.
fn closure<'scope>(reached: Pairs<'scope>, edges: Pairs<'scope>) -> Pairs<'scope> {
    let edges = edges.arrange_by_key();
    let seeds = reached.clone();
    reached.iterate(|scope, inner| {
        let (edges, seeds) = (edges.enter(scope), seeds.enter(scope));
        inner.arrange_by_key().join_core(edges, |_, &root, &next| Some((next, root))).concat(seeds).distinct()
    })
}

fn path<'scope>(edges: &[Pairs<'scope>], steps: &[Step]) -> Pairs<'scope> {
    let mut reached: Option<Pairs<'scope>> = None;
    let mut is_distinct = true;
    for step in steps {
        let along = union(edges, &step.labels);
        let before = match (reached, step.repetition) {
            (None, '*') => panic!("a path starts with an edge"),
            (None, _) => along.clone().map(|(source, target)| (target, source)),
            (Some(pairs), '*') => pairs,
            (Some(pairs), _) => {
                let ends = pairs.arrange_by_key();
                ends.join_core(along.clone().arrange_by_key(), |_, &root, &next| Some((next, root)))
            }
        };
        is_distinct = step.repetition != ' ';
        reached = Some(if is_distinct { closure(before.distinct(), along) } else { before });
    }
    let reached = reached.expect("a step").map(|(end, root)| (root, end));
    if is_distinct { reached } else { reached.distinct() }
}

/// Join atoms `variable,label,variable` in their order; all but the first have a bound variable.
fn pattern<'scope>(edges: &[Pairs<'scope>], atoms: &[(usize, usize, usize)]) -> VecCollection<'scope, Slide, Binding> {
    let (x, label, y) = atoms[0];
    let mut bound = vec![x, y];
    let mut bindings = edges[label].clone().map(move |(source, target)| {
        let mut binding = Binding::default();
        binding[x] = source;
        binding[y] = target;
        binding
    });
    for &(x, label, y) in &atoms[1..] {
        let along = edges[label].clone();
        bindings = match (bound.contains(&x), bound.contains(&y)) {
            (true, true) => {
                let keyed = bindings.map(move |one| ((one[x], one[y]), one)).arrange_by_key();
                keyed.join_core(along.arrange_by_self(), |_, &one, &()| Some(one))
            }
            (is_forward, _) => {
                let (from, to) = if is_forward { (x, y) } else { (y, x) };
                let along = if is_forward { along } else { along.map(|(source, target)| (target, source)) };
                let keyed = bindings.map(move |one| (one[from], one)).arrange_by_key();
                keyed.join_core(along.arrange_by_key(), move |_, one, &next| {
                    let mut binding = *one;
                    binding[to] = next;
                    Some(binding)
                })
            }
        };
        bound.extend([x, y]);
    }
    bindings
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let changes = read(&arguments[1]);
    let labels = 1 + changes.iter().map(|change| change.label).max().unwrap_or(0);
    timely::execute_directly(move |worker| {
        let mut probe = Handle::new();
        let answers = Rc::new(Cell::new((0isize, 0u64)));
        let mut inputs: Vec<InputSession<Slide, (Vertex, Vertex), isize>> = worker.dataflow(|scope| {
            let (inputs, edges): (Vec<_>, Vec<_>) = (0..labels).map(|_| scope.new_collection()).unzip();
            let answers = answers.clone();
            let count = move |row: &[Vertex], diff: isize| {
                let (number, sum) = answers.get();
                answers.set((number + diff, sum.wrapping_add(checksum(row).wrapping_mul(diff as u64))));
            };
            if arguments[2] == "path" {
                let steps: Vec<Step> = arguments[3..].iter().map(|text| step(text)).collect();
                let found = path(&edges, &steps);
                found.inspect(move |((x, y), _, diff)| count(&[*x, *y], *diff)).probe_with(&mut probe);
            } else {
                let atoms: Vec<(usize, usize, usize)> = arguments[3..]
                    .iter()
                    .map(|text| {
                        let cells: Vec<usize> = text.split(',').map(|cell| cell.parse().expect("a number")).collect();
                        (cells[0], cells[1], cells[2])
                    })
                    .collect();
                let width = 1 + atoms.iter().map(|&(x, _, y)| x.max(y)).max().expect("an atom");
                let found = pattern(&edges, &atoms);
                found.inspect(move |(row, _, diff)| count(&row[..width], *diff)).probe_with(&mut probe);
            }
            inputs
        });
        println!("ready");
        let mut seconds = 0.0;
        for part in changes.chunk_by(|one, other| one.slide == other.slide) {
            let started = cpu_seconds();
            for change in part {
                inputs[change.label].update((change.source, change.target), change.diff);
            }
            let next = part[0].slide + 1;
            for input in &mut inputs {
                input.advance_to(next);
                input.flush();
            }
            worker.step_while(|| probe.less_than(&next));
            seconds += cpu_seconds() - started;
            let (number, sum) = answers.get();
            println!("{}\t{seconds}\t{number}\t{sum}", part[0].slide);
            std::io::stdout().flush().expect("an output");
        }
    });
}
