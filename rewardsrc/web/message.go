package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// maxMessage is the longest message of a browser, in bytes.
const maxMessage = 512

// The types of a browser's message.
const (
	typeClock  = "clock"  // the answer to a clock exchange: id, at
	typePress  = "press"  // id, at, kind; request and shown if one was shown; value of kind value
	typeStop   = "stop"   // halt the robot
	typeTake   = "take"   // this device asks for the seat
	typeGive   = "give"   // the labelling device hands over to the asking one
	typeKeep   = "keep"   // the labelling device refuses to
	typeInvite = "invite" // a new pairing code: role
	typeTask   = "task"   // kind; name of a saved one
)

// The kinds of a message about tasks.
const (
	taskList = "list" // the saved tasks
	taskSave = "save" // the belief, as a task; with replace also over another one
	taskLoad = "load" // the robot switches to a saved task
	taskNew  = "new"  // the robot forgets all labels
)

// maxTaskName is the longest name of a task, in bytes.
const maxTaskName = 100

// The kinds of a press.
const (
	kindGood     = "good"
	kindBad      = "bad"
	kindValue    = "value"
	kindBetter   = "better"
	kindWorse    = "worse"
	kindGoal     = "goal"
	kindCantTell = "cant_tell"
	kindUndo     = "undo"
	kindKeep     = "keep" // the task, which seems to have changed
)

// The roles of a paired device.
const (
	roleLabel = "label" // may label, one device at a time
	roleWatch = "watch" // may watch, and stop
)

// message is a message of a browser.
type message struct {
	Type    string  `json:"type"`
	ID      uint64  `json:"id"`      // of a press or an exchange; a browser counts to 2^53
	At      float64 `json:"at"`      // performance.now() of the press or the answer, ms
	Kind    string  `json:"kind"`    // of a press or a task message
	Value   float64 `json:"value"`   // of a press of kind value
	Request uint64  `json:"request"` // on the page when the button was pressed, 0 for none
	Shown   float64 `json:"shown"`   // when it appeared, performance.now(), ms
	Role    string  `json:"role"`    // of an invitation
	Name    string  `json:"name"`    // of a task
	Replace bool    `json:"replace"` // a task of the same name
}

// errMessage is wrapped by every error about a message.
var errMessage = errors.New("web: message")

// maxBrowserMS bounds a browser's clock: some 30 years.
const maxBrowserMS = 1e12

// parseMessage parses and checks a message, as far as possible without the state
// of the server.
func parseMessage(data []byte) (m message, err error) {
	if len(data) > maxMessage {
		return m, fmt.Errorf("%w: %d bytes, at most %d allowed", errMessage, len(data), maxMessage)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return message{}, fmt.Errorf("%w: %w", errMessage, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return message{}, fmt.Errorf("%w: more than one value", errMessage)
	}
	if err := m.check(); err != nil {
		return message{}, fmt.Errorf("%w: %w", errMessage, err)
	}
	return m, nil
}

func (m *message) check() error {
	if !(m.At >= 0 && m.At <= maxBrowserMS) || !(m.Shown >= 0 && m.Shown <= maxBrowserMS) {
		return fmt.Errorf("invalid time (at %g, shown %g)", m.At, m.Shown)
	}
	if math.IsInf(m.Value, 0) || math.IsNaN(m.Value) {
		return errors.New("the value is not finite")
	}
	switch m.Type {
	case typeClock, typeStop, typeTake, typeGive, typeKeep:
		return nil
	case typeInvite:
		if m.Role != roleLabel && m.Role != roleWatch {
			return fmt.Errorf("unknown role %.16q", m.Role)
		}
		return nil
	case typePress:
		return m.checkPress()
	case typeTask:
		return m.checkTask()
	}
	return fmt.Errorf("unknown type %.16q", m.Type)
}

func (m *message) checkPress() error {
	switch m.Kind {
	case kindGood, kindBad, kindValue, kindBetter, kindWorse, kindGoal, kindCantTell, kindUndo, kindKeep:
	default:
		return fmt.Errorf("unknown kind %.16q", m.Kind)
	}
	if m.Request != 0 && m.Shown > m.At {
		return fmt.Errorf("pressed at %g ms, before the request appeared at %g ms", m.At, m.Shown)
	}
	return nil
}

func (m *message) checkTask() error {
	switch m.Kind {
	case taskList, taskNew:
		return nil
	case taskSave, taskLoad:
		if m.Name == "" || len(m.Name) > maxTaskName {
			return fmt.Errorf("the name of a task has %d bytes, want 1 to %d", len(m.Name), maxTaskName)
		}
		return nil
	}
	return fmt.Errorf("unknown kind %.16q of a task message", m.Kind)
}

// browserNS converts a browser's milliseconds into nanoseconds.
func browserNS(ms float64) int64 { return int64(ms * 1e6) }
