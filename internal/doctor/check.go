package doctor

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"optibfm/internal/shell"
	"optibfm/rtloop"
)

// The statuses of a finding.
const (
	statusOK   = "ok"
	statusWarn = "warn"
	statusFail = "fail"
	statusSkip = "skip" // not checked; Found has the reason
)

// finding is the result of a check for one subject.
type finding struct {
	ID      string `json:"id"`                // stable, such as rt.posture
	Group   string `json:"group"`             // title for people
	Subject string `json:"subject,omitempty"` // device, interface or key if a check has several
	Status  string `json:"status"`            // ok, warn, fail or skip
	Found   string `json:"found"`
	Fix     string `json:"fix,omitempty"`
	// Strict marks a warning that is a failure under loop.posture: strict.
	Strict bool               `json:"strict,omitempty"`
	Values map[string]float64 `json:"values,omitempty"` // keys carry their unit
}

func pass(format string, args ...any) finding {
	return finding{Status: statusOK, Found: fmt.Sprintf(format, args...)}
}

func skip(format string, args ...any) finding {
	return finding{Status: statusSkip, Found: fmt.Sprintf(format, args...)}
}

// warn returns a warning under every posture.
func warn(fix, format string, args ...any) finding {
	return finding{Status: statusWarn, Found: fmt.Sprintf(format, args...), Fix: fix}
}

// warnStrict returns a warning that is a failure under loop.posture: strict.
func warnStrict(fix, format string, args ...any) finding {
	f := warn(fix, format, args...)
	f.Strict = true
	return f
}

func fail(fix, format string, args ...any) finding {
	return finding{Status: statusFail, Found: fmt.Sprintf(format, args...), Fix: fix}
}

// about returns the finding with a subject.
func (f finding) about(subject string) finding {
	f.Subject = subject
	return f
}

// with returns the finding with numbers.
func (f finding) with(values map[string]float64) finding {
	f.Values = values
	return f
}

// check examines one part of the machine.
type check struct {
	id       string
	limit    time.Duration // after which it counts as hung
	announce string        // printed before a long check
	run      func(ctx context.Context) []finding
}

const checkLimit = 5 * time.Second

// single returns a check with one finding and the usual limit.
func single(id string, run func() finding) check {
	return bounded(id, checkLimit, func(context.Context) finding { return run() })
}

// bounded returns a check with one finding and a limit.
func bounded(id string, limit time.Duration, run func(context.Context) finding) check {
	return check{id: id, limit: limit, run: func(ctx context.Context) []finding { return []finding{run(ctx)} }}
}

// groupTitles are the titles of the groups by the first part of an id.
var groupTitles = map[string]string{
	"config": "configuration", "system": "system", "rt": "real time", "clock": "clock", "device": "devices",
	"operator": "operator", "model": "model", "disk": "disk",
}

// grace is the time in which a check that observes its context returns partial results.
const grace = 200 * time.Millisecond

// perform runs a check until its end or its limit. It abandons a check that hangs, because the
// process ends soon.
func (c check) perform(ctx context.Context, posture string) []finding {
	limited, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	done := make(chan []finding, 1)
	go func() { done <- c.recovered(limited) }()
	var found []finding
	select {
	case found = <-done:
	case <-limited.Done():
		select {
		case found = <-done:
		case <-time.After(grace):
			found = []finding{c.unfinished(ctx)}
		}
	}
	section, _, _ := strings.Cut(c.id, ".")
	program := shell.ThisProgram()
	for i := range found {
		f := &found[i]
		f.ID, f.Group = c.id, groupTitles[section]
		f.Found, f.Fix = program.Renamed(f.Found), program.Renamed(f.Fix)
		if f.Strict && f.Status == statusWarn && posture == rtloop.Strict {
			f.Status = statusFail
		}
	}
	return found
}

func (c check) unfinished(ctx context.Context) finding {
	if ctx.Err() != nil {
		return skip("interrupted")
	}
	return fail("see `dmesg` for the part that hangs; a run would hang there too", "no result within %v", c.limit)
}

// recovered turns a panic into a finding and prints its stack to stderr.
func (c check) recovered(ctx context.Context) (found []finding) {
	defer func() {
		if r := recover(); r != nil {
			debug.PrintStack()
			found = []finding{fail("report this with the configuration and the stack", "the check panicked: %v", r)}
		}
	}()
	return c.run(ctx)
}
