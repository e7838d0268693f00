// Package bustest is a system bus for tests: it accepts any user and answers each call with a
// function.
package bustest

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"optibfm/internal/fatal"
)

// Answer returns the name of an error, or "", and the body of the reply to a call.
type Answer func(m *dbus.Message) (failure string, body []any)

// Start starts a bus until the test ends, and returns how to connect to it. Each connection has its
// own Answer from accept; a bus with the Answer nil accepts connections and says nothing.
func Start(t testing.TB, accept func() (answer Answer, left func())) func(context.Context) (*dbus.Conn, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bus")
	listener, err := net.Listen("unix", path)
	fatal.If(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				answer, left := accept()
				defer left()
				serve(conn, answer)
			}()
		}
	}()
	return func(ctx context.Context) (*dbus.Conn, error) {
		return dbus.Connect("unix:path="+path, dbus.WithContext(ctx))
	}
}

// serve answers calls until the client leaves.
func serve(conn net.Conn, answer Answer) {
	if answer == nil {
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	in := bufio.NewReader(conn)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		reply := "ERROR\r\n"
		switch words := strings.Fields(strings.TrimPrefix(line, "\x00")); words[0] {
		case "AUTH":
			reply = "REJECTED EXTERNAL\r\n"
			if len(words) > 1 {
				reply = "OK 0123456789abcdef0123456789abcdef\r\n"
			}
		case "BEGIN":
			answerAll(conn, in, answer)
			return
		}
		if _, err := conn.Write([]byte(reply)); err != nil {
			return
		}
	}
}

func answerAll(conn net.Conn, in *bufio.Reader, answer Answer) {
	for {
		m, err := dbus.DecodeMessage(in)
		if err != nil {
			return
		}
		reply := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldReplySerial: dbus.MakeVariant(m.Serial()),
		}}
		name, body := answer(m)
		if name != "" {
			reply.Type, reply.Headers[dbus.FieldErrorName] = dbus.TypeError, dbus.MakeVariant(name)
		}
		reply.Body = body
		if len(body) > 0 {
			reply.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
		}
		if err := reply.EncodeTo(conn, binary.LittleEndian); err != nil {
			return
		}
	}
}
