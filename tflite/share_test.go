package tflite_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

func sealableFile(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "test")
	t.Cleanup(func() { f.Close() })
	return f
}

// shareable returns a model: simple or residual, in float16 or not.
func shareable(t *testing.T, residual, half bool) *tflite.Bundle {
	t.Helper()
	m := tflitetest.Manifest(small)
	m.Architecture.F.Residual, m.Architecture.Actor.Residual = residual, residual
	tensors := tflitetest.Tensors(m.Architecture, 1)
	if half {
		tensors, _ = halved(tensors)
	}
	b, err := tflite.New(m, tensors)
	if err != nil {
		t.Fatal(err)
	}
	cov, err := b.Covariance(randomObs(b.Dims(), 40)) // as Difference uses it
	if err != nil {
		t.Fatal(err)
	}
	tensors["cov_b"] = tflite.Tensor{Shape: tensors["cov_b"].Shape, F64: cov}
	if b, err = tflite.New(m, tensors); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestShare_GivesBothProcessesTheSameResults(t *testing.T) {
	for _, residual := range []bool{false, true} {
		for _, half := range []bool{false, true} {
			reference, sharing, f := shareable(t, residual, half), shareable(t, residual, half), sealableFile(t)
			if err := sharing.Share(f); err != nil {
				t.Fatal(err)
			}
			opened, err := tflite.OpenShared(f)
			if err != nil {
				t.Fatal(err)
			}
			for who, b := range map[string]*tflite.Bundle{"sharing": sharing, "opened": opened} {
				e, err := tflite.Difference(b, reference, randomObs(reference.Dims(), 40), 20)
				if err != nil || e.Worst() != 0 {
					t.Errorf("residual %t, float16 %t, %s: %+v, %v", residual, half, who, e, err)
				}
				if b.Hash != reference.Hash || b.Bytes != reference.Bytes || b.Float16 != half || b.Name != reference.Name {
					t.Errorf("%s: %+v", who, b)
				}
			}
			if _, err := f.WriteAt([]byte{1}, 0); !errors.Is(err, unix.EPERM) {
				t.Errorf("writing the file: %v, want EPERM", err)
			}
		}
	}
}

func TestOpenShared_RefusesWhatIsNotShared(t *testing.T) {
	whole := sealableFile(t)
	if err := shareable(t, true, true).Share(whole); err != nil {
		t.Fatal(err)
	}
	info, err := whole.Stat()
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, info.Size())
	if _, err := whole.ReadAt(content, 0); err != nil {
		t.Fatal(err)
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK
	for name, c := range map[string]struct {
		content []byte
		seals   int
		want    string
	}{
		"not sealed":         {content, unix.F_SEAL_WRITE, "seals"},
		"truncated":          {content[:len(content)-64], seals, "damaged"},
		"longer":             {append(slices.Clone(content), make([]byte, 64)...), seals, "damaged"},
		"a few bytes":        {content[:5], seals, "damaged"},
		"a wrong length":     {append([]byte{255, 255, 255, 255, 255, 255, 255, 255}, content[8:]...), seals, "damaged"},
		"another JSON value": {[]byte(strings.Replace(string(content), "Small", "small\"", 1)), seals, "invalid"},
		"no small tensors":   {[]byte(strings.Replace(string(content), "Small", "Smalx", 1)), seals, "truncated"},
		"no folded arrays":   {[]byte(strings.Replace(string(content), "Folded", "Foldex", 1)), seals, "damaged"},
		"no matrices":        {[]byte(strings.Replace(string(content), "Halves", "Halvez", 1)), seals, "damaged"},
	} {
		f := sealableFile(t)
		_, err := f.Write(c.content)
		_, sealed := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, c.seals)
		if err := errors.Join(err, sealed); err != nil {
			t.Fatal(err)
		}
		if b, err := tflite.OpenShared(f); b != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if b, err := tflite.OpenShared(sealableFile(t)); b != nil || err != nil {
		t.Errorf("an empty file: %v, %v", b, err)
	}
}
