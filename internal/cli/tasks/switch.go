package tasks

import (
	"cmp"
	"fmt"
	"io"

	"optibfm/internal/control"
)

// Switch lets the running robot of a configuration switch to a task, and prints its status. socket
// replaces safety.socket unless it is "".
func Switch(out io.Writer, o Options, name, socket string, asJSON bool) error {
	w, err := o.open()
	if err == nil {
		socket, err = w.socket(socket)
	}
	if err != nil {
		return fmt.Errorf("task switch: %w", err)
	}
	_, file, err := w.store.Read(name)
	if err != nil {
		return fmt.Errorf("task switch: %w", err)
	}
	return control.SwitchTask(out, socket, name, file, asJSON)
}

// Begin lets the running robot of a configuration begin a task without labels, and prints its
// status. socket replaces safety.socket unless it is "".
func Begin(out io.Writer, o Options, socket string, asJSON bool) error {
	w, err := o.open()
	if err == nil {
		socket, err = w.socket(socket)
	}
	if err != nil {
		return fmt.Errorf("task new: %w", err)
	}
	return control.NewTask(out, socket, asJSON)
}

// socket returns the control socket of a robot.
func (w workplace) socket(given string) (string, error) {
	if socket := cmp.Or(given, w.file.Safety.Socket); socket != "" {
		return socket, nil
	}
	return "", fmt.Errorf("%s: safety.socket is empty, so this robot accepts no commands; set it, or give --socket",
		w.Config)
}
