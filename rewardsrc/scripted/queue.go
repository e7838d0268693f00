package scripted

import "optibfm/rewardsrc"

// queue is a ring of labels in the order of their presses.
type queue struct {
	labels []rewardsrc.Label
	head   int // the oldest
	n      int
}

func (q *queue) push(l rewardsrc.Label) bool {
	if q.n == len(q.labels) {
		return false
	}
	*q.at(q.n) = l
	q.n++
	return true
}

// popUntil removes and returns the oldest label if its press is not after now.
func (q *queue) popUntil(now int64) (rewardsrc.Label, bool) {
	if q.n == 0 || q.at(0).At > now {
		return rewardsrc.Label{}, false
	}
	l := *q.at(0)
	q.head = (q.head + 1) % len(q.labels)
	q.n--
	return l, true
}

func (q *queue) clear() { q.n = 0 }

// at returns the i-th label, the oldest first.
func (q *queue) at(i int) *rewardsrc.Label { return &q.labels[(q.head+i)%len(q.labels)] }

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
