package tasks

import (
	"cmp"
	"fmt"
	"io"

	"optibfm/internal/control"
)

// Switch lets the running robot of a configuration switch to a task, and prints its status. socket replaces
// safety.socket unless it is "".
func Switch(out io.Writer, o Options, name, socket string, asJSON bool) error {
	w, err := o.open()
	if err != nil {
		return err
	}
	if socket = cmp.Or(socket, w.file.Safety.Socket); socket == "" {
		return fmt.Errorf("task switch: %s: safety.socket is empty, so this robot accepts no commands; "+
			"set it, or give --socket", o.Config)
	}
	_, file, err := w.folder.Read(name)
	if err != nil {
		return fmt.Errorf("task switch: %w", err)
	}
	return control.SwitchTask(out, socket, name, file, asJSON)
}
