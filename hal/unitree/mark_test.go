package unitree_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"optibfm/hal/unitree"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// holdMark is a process that holds the mark of its role until its input ends, in order or with an
// error.
func holdMark(role string) error {
	shared, err := unitree.OpenShared(os.NewFile(unitree.SegmentDescriptor, "segment"))
	if err != nil {
		return err
	}
	return shared.During(role, func() error {
		fmt.Println("held")
		text, err := io.ReadAll(os.Stdin)
		if string(text) == "panic" {
			panic(text)
		}
		if len(text) > 0 {
			return errors.New(string(text))
		}
		return err
	})
}

func TestShared_ShowsTheDeathOfAProcess(t *testing.T) {
	if emulated() {
		t.Skip("qemu-user has no robust futexes")
	}
	for end, dies := range map[string]bool{"": false, "kill": true, "an error": true, "panic": true} {
		shared, err := unitree.CreateShared()
		fatal.If(t, err)
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), "OPTIBFM_TEST_MARK="+unitree.RoleStandby)
		child.ExtraFiles = []*os.File{shared.File()}
		in, err1 := child.StdinPipe()
		out, err2 := child.StdoutPipe()
		if err1 != nil || err2 != nil || child.Start() != nil {
			t.Fatal(err1, err2)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "held\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if shared.Died(unitree.RoleStandby) {
			t.Error("dead while it lives")
		}
		if end == "kill" {
			err = child.Process.Kill()
		} else {
			_, err1 := io.WriteString(in, end)
			err = errors.Join(err1, in.Close())
		}
		fatal.If(t, err)
		_ = child.Wait() // its end is enough
		if got := shared.Died(unitree.RoleStandby); got != dies {
			t.Errorf("end %q: dead %v, want %v", end, got, dies)
		}
		if shared.Died(unitree.RolePrimary) || shared.Died(unitree.RoleControl) {
			t.Error("another process is dead")
		}
		errtest.Nil(t, shared.Close())
	}
}
