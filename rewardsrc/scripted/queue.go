package scripted

import "optibfm/rewardsrc"

// queue is a ring of presses in the order of their times.
type queue struct {
	presses []press
	head    int // the oldest
	n       int
	judged  int // the oldest presses that have their value
}

// push inserts a press behind all that are not later. It reports whether there was room.
func (q *queue) push(p press) bool {
	if q.n == len(q.presses) {
		return false
	}
	*q.at(q.n) = p
	for i := q.n; i > q.judged && q.at(i-1).At > q.at(i).At; i-- {
		*q.at(i - 1), *q.at(i) = *q.at(i), *q.at(i - 1)
	}
	q.n++
	return true
}

// firstBefore returns the oldest press without a value, if it is before a time, or nil.
func (q *queue) firstBefore(at int64) *press {
	if q.judged == q.n || q.at(q.judged).At >= at {
		return nil
	}
	return q.at(q.judged)
}

// popJudged removes and returns the oldest label, if it has its value.
func (q *queue) popJudged() (rewardsrc.Label, bool) {
	if q.judged == 0 {
		return rewardsrc.Label{}, false
	}
	l := q.at(0).Label
	q.head = (q.head + 1) % len(q.presses)
	q.n--
	q.judged--
	return l, true
}

func (q *queue) clear() { q.n, q.judged = 0, 0 }

// at returns the i-th press, the oldest first.
func (q *queue) at(i int) *press { return &q.presses[(q.head+i)%len(q.presses)] }

// link makes the waiting label of a tick the answer to a request.
func (q *queue) link(tick, request uint64) bool {
	for i := q.n - 1; i >= 0; i-- {
		if l := q.at(i); l.Tick == tick {
			l.Request = request
			return true
		}
	}
	return false
}

// unlink reverts link.
func (q *queue) unlink(request uint64) {
	for i := range q.n {
		if l := q.at(i); l.Request == request {
			l.Request = 0
		}
	}
}
