package tflite_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

func sealableFile(t *testing.T) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	fatal.If(t, err)
	f := os.NewFile(uintptr(fd), "test")
	t.Cleanup(func() { f.Close() })
	return f
}

// shareable returns a model: simple or residual, in float16 or not.
func shareable(t *testing.T, residual, half bool) (tflite.Manifest, map[string]tflite.Tensor) {
	t.Helper()
	m := tflitetest.Manifest(small)
	m.Architecture.F.Residual, m.Architecture.Actor.Residual = residual, residual
	tensors := tflitetest.Tensors(m.Architecture, 1)
	if half {
		tensors, _ = halved(tensors)
	}
	b, err := tflite.New(m, tensors)
	fatal.If(t, err)
	cov, err := b.Covariance(randomObs(b.Dims(), 40)) // as Difference uses it
	fatal.If(t, err)
	tensors["cov_b"] = tflite.Tensor{Shape: tensors["cov_b"].Shape, F64: cov}
	return m, tensors
}

// loadShared loads a saved model with shared weights.
func loadShared(t *testing.T, residual, half bool) (reference, b *tflite.Bundle, weights *os.File) {
	t.Helper()
	m, tensors := shareable(t, residual, half)
	dir := filepath.Join(t.TempDir(), "model")
	fatal.If(t, tflite.Save(dir, m, tensors))
	reference, err := tflite.LoadDir(dir)
	fatal.If(t, err)
	b, weights, err = tflite.LoadShared(os.DirFS(dir), dir, nil)
	fatal.If(t, err)
	t.Cleanup(func() { weights.Close() })
	return reference, b, weights
}

func TestLoadShared_GivesBothProcessesTheSameResults(t *testing.T) {
	for _, residual := range []bool{false, true} {
		for _, half := range []bool{false, true} {
			reference, sharing, f := loadShared(t, residual, half)
			opened, err := tflite.OpenShared(f)
			fatal.If(t, err)
			for who, b := range map[string]*tflite.Bundle{"sharing": sharing, "opened": opened} {
				e, err := tflite.Difference(b, reference, randomObs(reference.Dims(), 40), 20)
				if err != nil || e.Worst() != 0 {
					t.Errorf("residual %t, float16 %t, %s: %+v, %v", residual, half, who, e, err)
				}
				if b.Hash != reference.Hash || b.Bytes != reference.Bytes || b.Float16 != half || b.Name != reference.Name {
					t.Errorf("%s: %+v", who, b)
				}
			}
			errtest.Is(t, errtest.Of(f.WriteAt([]byte{1}, 0)), unix.EPERM, "writing the file")
		}
	}
}

// A load that releases memory must not unmap memory of another load at the same address.
func TestLoadShared_BesideOtherLoads(t *testing.T) {
	m, tensors := shareable(t, true, true)
	dir := filepath.Join(t.TempDir(), "model")
	fatal.If(t, tflite.Save(dir, m, tensors))
	obs := randomObs(small, 40)
	reference, err := tflite.LoadDir(dir)
	fatal.If(t, err)
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	var loads sync.WaitGroup
	for range 8 {
		loads.Go(func() {
			for range rounds {
				b, f, err := tflite.LoadShared(os.DirFS(dir), dir, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if e, err := tflite.Difference(b, reference, obs, 20); err != nil || e.Worst() != 0 {
					t.Errorf("%+v, %v", e, err)
				}
				f.Close()
			}
		})
	}
	loads.Wait()
}

func TestLoadShared_RefusesADamagedModel(t *testing.T) {
	m, tensors := shareable(t, true, true)
	dir := filepath.Join(t.TempDir(), "model")
	fatal.If(t, tflite.Save(dir, m, tensors))
	path := filepath.Join(dir, "model.safetensors")
	raw, err := os.ReadFile(path)
	fatal.If(t, err)
	raw[len(raw)-1] ^= 1
	fatal.If(t, os.WriteFile(path, raw, 0o600))
	b, f, err := tflite.LoadShared(os.DirFS(dir), dir, nil)
	if b != nil || f != nil || err == nil {
		t.Fatalf("got %v, %v, %v", b, f, err)
	}
	if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "sha256") {
		t.Error(err)
	}
}

// footer is the size, in bytes, of the end of a shared file: two lengths and a sha256.
const footer = 8 + 8 + sha256.Size

// edited replaces text in the layout of a shared file, and corrects length and hash.
func edited(content []byte, old, replacement string) []byte {
	at := len(content) - footer
	layout, small := binary.LittleEndian.Uint64(content[at:]), binary.LittleEndian.Uint64(content[at+8:])
	begin := at - int(layout+small)
	text := strings.Replace(string(content[begin:][:layout]), old, replacement, 1)
	end := append([]byte(text), content[begin+int(layout):at]...)
	sum := sha256.Sum256(end)
	end = binary.LittleEndian.AppendUint64(end, uint64(len(text)))
	end = binary.LittleEndian.AppendUint64(end, small)
	return slices.Concat(content[:begin], end, sum[:])
}

func TestOpenShared_RefusesWhatIsNotShared(t *testing.T) {
	_, _, whole := loadShared(t, true, true)
	info, err := whole.Stat()
	fatal.If(t, err)
	content := make([]byte, info.Size())
	fatal.If(t, errtest.Of(whole.ReadAt(content, 0)))
	flipped := slices.Clone(content)
	flipped[len(content)-footer-1] ^= 1
	wrong := slices.Clone(content)
	copy(wrong[len(content)-footer:], slices.Repeat([]byte{255}, 8))
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK
	for name, c := range map[string]struct {
		content []byte
		seals   int
		want    string
	}{
		"not sealed":         {content, unix.F_SEAL_WRITE, "seals"},
		"truncated":          {content[:len(content)-64], seals, "damaged"},
		"without a matrix":   {content[64:], seals, "damaged"},
		"longer":             {append(make([]byte, 64), content...), seals, "damaged"},
		"a few bytes":        {content[:5], seals, "damaged"},
		"a wrong length":     {wrong, seals, "damaged"},
		"another layout":     {flipped, seals, "damaged"},
		"another JSON value": {edited(content, "Halves\":[", "Halves\":[1,"), seals, "cannot unmarshal"},
		"another size":       {edited(content, `"latent":`, `"latent":1`), seals, "shape"},
		"no folded arrays":   {edited(content, "Folded", "Foldex"), seals, "damaged"},
		"no matrices":        {edited(content, "Halves", "Halvez"), seals, "damaged"},
	} {
		f := sealableFile(t)
		_, err := f.Write(c.content)
		_, sealed := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, c.seals)
		fatal.If(t, errors.Join(err, sealed))
		if b, err := tflite.OpenShared(f); b != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if same, err := tflite.OpenShared(whole); same == nil || err != nil {
		t.Errorf("the whole file: %v", err)
	}
}
