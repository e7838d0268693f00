package link

import (
	"fmt"
	"strings"

	"optibfm/controller"
	"optibfm/internal/plaintext"
)

// StopReport is the cause of a stop in shared memory. The reader must accept any bytes.
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
	r.Length = uint64(copy(r.Text[:], plaintext.Line(cause.Err.Error())))
}

// Found returns the details of the cause.
func (r *StopReport) Found() string {
	return strings.ToValidUTF8(string(r.Text[:min(r.Length, uint64(len(r.Text)))]), "")
}

// String returns the fault and its details.
func (r *StopReport) String() string {
	return fmt.Sprintf("%v: %s", controller.Fault(r.Fault), r.Found())
}
