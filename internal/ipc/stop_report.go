package ipc

import (
	"fmt"
	"strings"

	"optibfm/controller"
	"optibfm/internal/plaintext"
)

// StopReport is the cause of a stop in shared memory. The reader must accept any bytes.
type StopReport struct {
	Fault uint64 // controller.Fault
	Final uint64 // 1: the run ends with it
	Text  text
}

// text is a line of text in shared memory. The reader must accept any bytes.
type text struct {
	Length uint64 // of Line, bytes
	Line   [2048]uint8
}

func (t *text) set(s string) { t.Length = uint64(copy(t.Line[:], plaintext.Line(s))) }

func (t *text) String() string {
	return strings.ToValidUTF8(string(t.Line[:min(t.Length, uint64(len(t.Line)))]), "")
}

func (r *StopReport) set(cause *controller.FaultError, final bool) {
	r.Fault, r.Final = uint64(cause.Fault), 0
	if final {
		r.Final = 1
	}
	r.Text.set(cause.Err.Error())
}

// Found returns the details of the cause.
func (r *StopReport) Found() string { return r.Text.String() }

// String returns the fault and its details.
func (r *StopReport) String() string {
	return fmt.Sprintf("%v: %s", controller.Fault(r.Fault), r.Found())
}
