package link

import (
	"fmt"
	"strings"

	"optibfm/controller"
)

// StopReport is a cause as the host records and shows it. It may be damaged.
type StopReport struct {
	Fault  uint64 // controller.Fault
	Final  uint64 // 1: the run ends with it
	Length uint64 // of Text, bytes
	Text   [2048]uint8
}

func (r *StopReport) set(cause *controller.FaultError, final bool) {
	r.Fault, r.Final = uint64(cause.Fault), 0
	if final {
		r.Final = 1
	}
	r.Length = uint64(copy(r.Text[:], cause.Err.Error()))
}

// Found is what was found.
func (r *StopReport) Found() string {
	return strings.ToValidUTF8(string(r.Text[:min(r.Length, uint64(len(r.Text)))]), "")
}

// String is the fault and what was found.
func (r *StopReport) String() string {
	return fmt.Sprintf("%v: %s", controller.Fault(r.Fault), r.Found())
}
