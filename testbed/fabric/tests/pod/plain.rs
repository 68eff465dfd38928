//! Algorithm 1 literally, one demand at a time: `tests/iterative.rs` compares the law of
//! `iterative` with it, and the benchmark its time. For one pod without Cores.
//! Source: \[zeropod\] alg. 1.

use fabric::pod::{Chance, Demands, Grant, To};

/// A request: a demand, its path, and its place in the order.
#[derive(Clone, Copy)]
struct Request {
    sender: usize,
    host: usize,
    agg: usize,
    order: (u8, u64),
}

/// What is idle, a flag each.
struct State {
    send: Vec<bool>,
    recv: Vec<bool>,
    /// By ToR and Agg.
    up: Vec<Vec<bool>>,
    down: Vec<Vec<bool>>,
}

/// The grants of one decision in an idle pod; how many there are after each iteration.
pub(crate) fn decide(
    demands: &Demands,
    iterations: usize,
    chance: &mut Chance,
) -> (Vec<Grant>, Vec<usize>) {
    let shape = demands.shape();
    let (hosts, tors, aggs) = (shape.hosts(), shape.tors(), shape.aggs());
    let mut state = State {
        send: vec![true; hosts],
        recv: vec![true; hosts],
        up: vec![vec![true; aggs]; tors],
        down: vec![vec![true; aggs]; tors],
    };
    let mut open = Vec::new();
    for sender in 0..hosts {
        for host in (0..hosts).filter(|host| *host != sender) {
            let to = To::Host(u16::try_from(host).expect("a host"));
            if let Some(class) = demands.class(sender, to) {
                open.push((sender, host, class));
            }
        }
    }
    let (mut grants, mut counts) = (Vec::new(), Vec::new());
    for _ in 0..iterations {
        let mut requests = request(&state, &open, demands, chance);
        requests.sort_unstable_by_key(|request| request.order);
        for kept in iterate(&mut state, requests, demands) {
            let number = |at: usize| u16::try_from(at).expect("a host");
            let agg = u8::try_from(kept.agg).expect("an Agg");
            let (sender, to) = (number(kept.sender), To::Host(number(kept.host)));
            grants.push(Grant { sender, to, agg, core: None });
        }
        counts.push(grants.len());
    }
    (grants, counts)
}

/// Request: each demand whose ends are free names one of the paths that are idle.
fn request(
    state: &State,
    open: &[(usize, usize, u8)],
    demands: &Demands,
    chance: &mut Chance,
) -> Vec<Request> {
    let shape = demands.shape();
    let mut requests = Vec::new();
    for &(sender, host, class) in open {
        if !state.send[sender] || !state.recv[host] {
            continue;
        }
        let (up, down) = (&state.up[shape.place(sender).0], &state.down[shape.place(host).0]);
        let idle = |agg: &usize| up[*agg] && down[*agg];
        let paths = u32::try_from((0..shape.aggs()).filter(idle).count()).expect("few");
        if paths > 0 {
            let nth = chance.below(paths) as usize;
            let agg = (0..shape.aggs()).filter(idle).nth(nth).expect("a path");
            requests.push(Request { sender, host, agg, order: (class, chance.next()) });
        }
    }
    requests
}

/// Grant 1, Grant 2, Accept: what is accepted, and the state after it.
fn iterate(state: &mut State, requests: Vec<Request>, demands: &Demands) -> Vec<Request> {
    let shape = demands.shape();
    let tors = |request: &Request| (shape.place(request.sender).0, shape.place(request.host).0);
    let mut granted = Vec::new();
    for request in requests {
        let (from, to) = tors(&request);
        if state.up[from][request.agg] && state.down[to][request.agg] {
            (state.up[from][request.agg], state.down[to][request.agg]) = (false, false);
            granted.push(request);
        }
    }
    // In the order of priority, so the first of each sender, then of each receiver, is kept.
    let mut accepted = Vec::new();
    let mut by_sender = vec![false; shape.hosts()];
    for request in granted {
        let (from, to) = tors(&request);
        let kept = !by_sender[request.sender] && state.recv[request.host];
        let first = !by_sender[request.sender];
        by_sender[request.sender] = true;
        if first && kept {
            (state.send[request.sender], state.recv[request.host]) = (false, false);
            accepted.push(request);
        } else {
            (state.up[from][request.agg], state.down[to][request.agg]) = (true, true);
        }
    }
    accepted
}
