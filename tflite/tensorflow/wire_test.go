//go:build tensorflow

package tensorflow

import (
	"maps"
	"os"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/internal/wire"
	"optibfm/tflite/tflitetest"
)

// These tests need no library.

func TestNewGraph_EveryNodeIsOnTheDevice(t *testing.T) {
	dims := tflite.Dims{Obs: 9, Action: 2, Latent: 24, Ensemble: 2}
	g := newGraph(tflitetest.Bundle(dims, 1), "/GPU:0", false)
	var names []string
	err := wire.EachField(g.bytes(), func(field protowire.Number, node []byte, _ uint64) error {
		if field != 1 {
			return nil
		}
		var name, device string
		err := wire.EachField(node, func(field protowire.Number, value []byte, _ uint64) error {
			switch field {
			case 1:
				name = string(value)
			case 4:
				device = string(value)
			}
			return nil
		})
		if device != "/GPU:0" {
			t.Errorf("%s is on %q", name, device)
		}
		if slices.Contains(names, name) {
			t.Errorf("two nodes have the name %s", name)
		}
		names = append(names, name)
		return err
	})
	fatal.If(t, err)
	for _, name := range []string{
		ObsName, CandidateName, MeanName, InvRName, BetaName,
		PhiName, ActionName, PsiName, BestName, ScoreName, FiniteName,
	} {
		if !slices.Contains(names, name) {
			t.Errorf("no node %s", name)
		}
	}
}

func TestCountUses_CountsOperationsByType(t *testing.T) {
	g := newGraphDef("/CPU:0")
	x := g.floats([]float32{1})
	g.binary("AddV2", x, x)
	g.binary("AddV2", x, x)
	g.widen(x)
	uses, err := countUses(g.bytes())
	fatal.If(t, err)
	counted := make(map[string]int)
	for key, u := range uses {
		counted[key] = u.nodes
	}
	want := map[string]int{"Const map[dtype:1]": 1, "AddV2 map[T:1]": 2, "Cast map[DstT:2 SrcT:1]": 1}
	if !maps.Equal(counted, want) {
		t.Errorf("%v, want %v", counted, want)
	}
}

func TestKernelFor_ChecksTypes(t *testing.T) {
	// device_type CPU; constraint: Tidx is int32 or int64
	list := wire.AppendVarint(wire.AppendVarint(nil, 6, uint64(int32Type)), 6, uint64(int64Type))
	constraint := wire.AppendMessage(wire.AppendString(nil, 1, "Tidx"), 2, wire.AppendMessage(nil, 1, list))
	kernel := wire.AppendMessage(wire.AppendString(nil, 2, "CPU"), 3, constraint)
	for _, c := range []struct {
		types map[string]dtype
		fits  bool
	}{
		{map[string]dtype{"Tidx": int64Type, "T": float32Type}, true},
		{map[string]dtype{"Tidx": float32Type}, false},
	} {
		device, fits, err := kernelFor(kernel, c.types)
		if device != "CPU" || fits != c.fits || err != nil {
			t.Errorf("%v: %s, %t, %v", c.types, device, fits, err)
		}
	}
}

func TestCheckVersion_RejectsUnsupportedVersions(t *testing.T) {
	for version, good := range map[string]bool{
		"2.16.1": true, "2.21.0-rc0": true,
		"2.15.1": false, "1.15.5": false, "3.0.0": false, "": false, "x.y": false,
	} {
		if err := checkVersion(version); (err == nil) != good {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func FuzzSignatures(f *testing.F) {
	saved, err := os.ReadFile("testdata/savedmodel/saved_model.pb")
	fatal.If(f, err)
	// A SavedModel holds MetaGraphDefs in its field 2.
	err = wire.EachField(saved, func(field protowire.Number, meta []byte, _ uint64) error {
		if field == 2 {
			signatures, err := readSignatures(meta)
			if err != nil || len(signatures["psi"].inputs) != 3 {
				f.Errorf("%v, %v", signatures, err)
			}
			f.Add(meta)
		}
		return nil
	})
	fatal.If(f, err)
	f.Add([]byte{0x2a, 0x02, 0x0a, 0x00})
	f.Fuzz(func(t *testing.T, meta []byte) {
		signatures, err := readSignatures(meta)
		if err != nil {
			return
		}
		found, err := match(signatures, tflite.DefaultSignatures())
		if err == nil && (found.dims.Latent < 1 || len(found.psi.inputs) != 3) {
			t.Errorf("%+v passed", found)
		}
	})
}

func FuzzKernels(f *testing.F) {
	f.Add([]byte{0x12, 0x03, 'C', 'P', 'U'}, int32(1))
	b := tflitetest.Bundle(tflite.Dims{Obs: 1, Action: 1, Latent: 2, Ensemble: 1}, 1)
	f.Add(newGraph(b, "/CPU:0", false).bytes()[:2000], int32(1))
	f.Fuzz(func(t *testing.T, kernel []byte, kind int32) {
		_, _ = countUses(kernel)
		_, _, _ = kernelFor(kernel, map[string]dtype{"T": dtype(kind)})
	})
}

func TestGraph_OfVariablesHasNoWeights(t *testing.T) {
	b := tflitetest.Bundle(tflite.Dims{Obs: 40, Action: 6, Latent: 50, Ensemble: 2}, 1)
	constants, assigned := newGraph(b, "/CPU:0", false), newGraph(b, "/CPU:0", true)
	elements := 0
	for _, v := range assigned.variables {
		size := 1
		for _, n := range v.dims {
			size *= n
		}
		if size != len(v.values) {
			t.Errorf("%s: %d values of %v", v.feed, len(v.values), v.dims)
		}
		elements += size
	}
	if len(constants.variables) != 0 || elements == 0 {
		t.Fatalf("%d and %d variables", len(constants.variables), len(assigned.variables))
	}
	nodes := 4 * 512 * len(assigned.variables) // bytes: four nodes of at most 512 bytes each
	if n, m := len(constants.bytes()), len(assigned.bytes()); m > n-4*elements+nodes {
		t.Errorf("%d bytes with constants, %d with %d elements outside", n, m, elements)
	}
}
