package dds

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"optibfm/hal/unitree/idl"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// TestDDS_ExchangesEqualBytesWithAProgramInC sends random messages to a C program and gets them
// back. That program uses libddsc with the code that Cyclone's own compiler makes from the IDL.
func TestDDS_ExchangesEqualBytesWithAProgramInC(t *testing.T) {
	l := library(t)
	for _, program := range []string{"idlc", "cc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is missing: apt install cyclonedds-tools cyclonedds-dev gcc", program)
		}
	}
	t.Run("G1 command", func(t *testing.T) {
		exchangeWithC[idl.G1Command](t, l, idl.G1CommandType, "unitree_hg_msg_dds__LowCmd_", domain+2)
	})
	t.Run("G1 state", func(t *testing.T) {
		exchangeWithC[idl.G1State](t, l, idl.G1StateType, "unitree_hg_msg_dds__LowState_", domain+3)
	})
	t.Run("Go2 command", func(t *testing.T) {
		exchangeWithC[idl.Go2Command](t, l, idl.Go2CommandType, "unitree_go_msg_dds__LowCmd_", domain+4)
	})
	t.Run("Go2 state", func(t *testing.T) {
		exchangeWithC[idl.Go2State](t, l, idl.Go2StateType, "unitree_go_msg_dds__LowState_", domain+5)
	})
}

const exchanged = 1500

func exchangeWithC[T interface {
	comparable
	idl.Message
}](t *testing.T, l *Library, d idl.Descriptor, ctype string, domain uint32) {
	echo, output, end := startEcho(t, ctype, domain)
	p, err := l.Join(domain, Loopback)
	fatal.If(t, err)
	defer p.Close()
	w, err := NewWriter[T](p, "there", d)
	fatal.If(t, err)
	r, err := NewReader[T](p, "back", d, 1)
	fatal.If(t, err)
	within(t, "the C program is not found", func() bool {
		writers, err := r.Writers(nil)
		return err == nil && len(writers) == 1 && w.Readers() == 1
	})
	if line, err := output.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	rng, summer := rand.New(rand.NewPCG(1, 2)), idl.NewSummer[T]()
	for i := range exchanged {
		m := w.Message()
		fill(rng, reflect.ValueOf(m).Elem())
		reflect.ValueOf(m).Elem().FieldByName("CRC").SetUint(uint64(summer.Sum(m)))
		fatal.If(t, w.Write())
		var got *T
		within(t, fmt.Sprintf("message %d does not come back", i), func() bool {
			got, _, err = r.Take()
			return err != nil || got != nil
		})
		if err != nil || *got != *m {
			t.Fatalf("message %d: %v, sent %+v, got %+v", i, err, *m, got)
		}
	}
	line, err := output.ReadString('\n')
	if want := fmt.Sprintf("%d 0\n", exchanged); err != nil || line != want {
		t.Errorf("messages with the C program, wrong checksums: %q, %v, want %q", line, err, want)
	}
	errtest.Nil(t, errors.Join(end.Close(), echo.Wait()))
}

// startEcho builds and starts the C program on the loopback interface. Closing end ends it.
func startEcho(t *testing.T, ctype string, domain uint32) (echo *exec.Cmd, output *bufio.Reader, end io.Closer) {
	t.Helper()
	dir := t.TempDir()
	for _, command := range [][]string{
		{"idlc", "-t", "-o", dir, "../idl/generate/unitree.idl"},
		{"cc", "-Wall", "-DTYPE=" + ctype, "-I", dir, "-o", filepath.Join(dir, "echo"),
			"testdata/echo.c", filepath.Join(dir, "unitree.c"), "-lddsc"},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", command, err, out)
		}
	}
	echo = exec.Command(filepath.Join(dir, "echo"), fmt.Sprint(domain), fmt.Sprint(exchanged))
	echo.Env = append(os.Environ(), "CYCLONEDDS_URI="+configuration(Loopback))
	echo.Stderr = os.Stderr
	pipe, err1 := echo.StdoutPipe()
	end, err2 := echo.StdinPipe()
	fatal.If(t, cmp.Or(err1, err2, echo.Start()))
	t.Cleanup(func() { _ = echo.Process.Kill() }) // it may have ended
	return echo, bufio.NewReader(pipe), end
}

// within polls for a condition.
func within(t *testing.T, failure string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if ok() {
			return
		}
	}
	t.Fatal(failure)
}

// fill sets each number to a random one.
func fill(rng *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "_" { // padding
				fill(rng, v.Field(i))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i))
		}
	case reflect.Float32:
		v.SetFloat(float64(float32(rng.NormFloat64())))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(rng.Uint64() >> (64 - v.Type().Bits()))
	default:
		v.SetInt(int64(rng.Uint64()) >> (64 - v.Type().Bits()))
	}
}
