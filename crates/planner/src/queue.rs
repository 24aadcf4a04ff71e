//! What is to happen, in the order of its time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::time::Time;

/// Events to come; of those at the same time the one that was put in first is first.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    put: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// The greatest is the next.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), put: 0 }
    }
}

impl<E> Queue<E> {
    /// Something is to happen then.
    pub(crate) fn put(&mut self, at: Time, event: E) {
        self.put += 1;
        self.heap.push(Entry { at, number: self.put, event });
    }

    /// What happens next, and when.
    pub(crate) fn next(&mut self) -> Option<(Time, E)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }

    /// Events that were put in so far.
    pub(crate) fn put_so_far(&self) -> u64 {
        self.put
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_at_one_time_as_they_were_put_in() {
        let mut queue = Queue::default();
        for (at, event) in [(3, 'c'), (1, 'a'), (3, 'd'), (1, 'b')] {
            queue.put(Time::from_millis(at), event);
        }
        let order: String = std::iter::from_fn(|| queue.next()).map(|(_, event)| event).collect();
        assert_eq!((order.as_str(), queue.put_so_far()), ("abcd", 4));
    }
}
