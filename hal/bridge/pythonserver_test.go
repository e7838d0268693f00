package bridge

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestPythonServer_RefusesBadProtocol(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: scripts/optibfm_bridge is not tested")
	}
	path := filepath.Join(t.TempDir(), "robot.sock")
	server := exec.Command(python, filepath.Join("testdata", "counter.py"), "--listen", "unix:"+path)
	server.Env = append(os.Environ(), "PYTHONPATH=../../scripts")
	fatal.If(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for range 500 {
		if conn, err := net.Dial("unix", path); err == nil {
			fatal.If(t, conn.Close())
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	hi := frame(kindHello, 0, hello{mode: lockstep}.encode())
	after := func(frames ...[]byte) []byte { return append(bytes.Clone(hi), bytes.Join(frames, nil)...) }
	cases := map[string][]byte{
		"is the client one of a bridge?":     []byte("GET / HTTP/1.1\r\n"),
		"it came before hello":               frame(kindSense, 0, nil),
		"wrong magic":                        frame(kindHello, 0, append([]byte("XBFM"), hi[headerSize+4:]...)),
		"too short":                          frame(kindHello, 0, hi[headerSize:][:6]),
		"too long (2147483648 bytes":         header{kind: kindHello, length: 1 << 31}.bytes(),
		"reserved bytes are not zero":        after(header{kind: kindSense, flags: 2}.bytes()),
		"not a request":                      after(frame(kindState, 1, nil)),
		"wrong length (0 bytes, expected 4)": after(frame(kindAct, 1, nil)),
		"the robot is halted: arm it":        after(frame(kindAct, 1, floats(1))),
		"is not within its limits (3.0":      after(frame(kindArm, 1, nil), frame(kindAct, 2, floats(3))),
	}
	for want, sent := range cases {
		expectAnswer(t, path, sent, want)
	}
	r := dial(t, Config{Address: "unix:" + path})
	fatal.If(t, errtest.Of(r.Sense(make([]float32, 2))))
}

// expectAnswer sends bytes and checks that the complete answer contains want.
func expectAnswer(t *testing.T, path string, sent []byte, want string) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(context.Background(), "unix", path)
	fatal.If(t, err)
	defer conn.Close()
	fatal.If(t, errtest.Of(conn.Write(sent)))
	fatal.If(t, conn.(*net.UnixConn).CloseWrite())
	fatal.If(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	var all []byte
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		all = append(all, buf[:n]...)
		if err != nil {
			break
		}
	}
	if !strings.Contains(string(all), want) {
		t.Errorf("answer %q lacks %q", all, want)
	}
}
