package unitree_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"optibfm/hal/unitree"
)

// holdMark is a process that holds the mark of its role until its input ends, in order.
func holdMark(role string) error {
	shared, err := unitree.OpenShared(os.NewFile(unitree.SegmentDescriptor, "segment"))
	if err != nil {
		return err
	}
	release := shared.Hold(role)
	fmt.Println("held")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	release()
	return nil
}

func TestShared_ShowsTheDeathOfAProcess(t *testing.T) {
	if os.Getenv("OPTIBFM_TEST_EMULATED") != "" {
		t.Skip("qemu-user has no robust futexes")
	}
	for _, killed := range []bool{true, false} {
		shared, err := unitree.CreateShared()
		if err != nil {
			t.Fatal(err)
		}
		child := exec.Command("/proc/self/exe")
		child.Env = append(os.Environ(), "OPTIBFM_TEST_MARK="+unitree.RoleStandby)
		child.Stderr, child.ExtraFiles = os.Stderr, []*os.File{shared.File()}
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
		if killed {
			err = child.Process.Kill()
		} else {
			err = in.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // its end is enough
		if got := shared.Died(unitree.RoleStandby); got != killed {
			t.Errorf("killed %v, but dead %v", killed, got)
		}
		if shared.Died(unitree.RolePrimary) || shared.Died(unitree.RoleControl) {
			t.Error("another process is dead")
		}
		if err := shared.Close(); err != nil {
			t.Error(err)
		}
	}
}
