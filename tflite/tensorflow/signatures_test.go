//go:build tensorflow

package tensorflow

import (
	"strings"
	"testing"

	"optibfm/tflite"
)

// These tests need no library.

// float is a float32 tensor of a shape; -1 is not fixed.
func float(dims ...int) tensorInfo { return tensorInfo{name: "x:0", t: float32Type, dims: dims} }

// fittingSignatures are those of O 5, A 2, d 4 and E 3.
func fittingSignatures() map[string]signature {
	type tensors = map[string]tensorInfo
	return map[string]signature{
		"phi":    {tensors{"obs": float(-1, 5)}, tensors{"phi": float(-1, 4)}},
		"policy": {tensors{"obs": float(-1, 5), "z": float(-1, 4)}, tensors{"action": float(-1, 2)}},
		"psi":    {tensors{"obs": float(-1, 5), "action": float(-1, 2), "z": float(-1, 4)}, tensors{"psi": float(3, -1, 4)}},
	}
}

func TestSignaturesThatFitGiveTheSizes(t *testing.T) {
	f, err := match(fittingSignatures(), tflite.DefaultSignatures())
	if err != nil || f.dims != (tflite.Dims{Obs: 5, Action: 2, Latent: 4, Ensemble: 3}) || len(f.psi.in) != 3 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestSignaturesThatDoNotFitAreShownBesideWhatIsExpected(t *testing.T) {
	cases := map[string]struct {
		spoil func(map[string]signature)
		want  []string // of one line
	}{
		"no signature":       {func(s map[string]signature) { delete(s, "policy") }, []string{"policy", "nothing", "missing"}},
		"no input":           {func(s map[string]signature) { delete(s["psi"].inputs, "action") }, []string{"psi", "in action", "float32 [n, A]", "nothing", "missing"}},
		"no output":          {func(s map[string]signature) { delete(s["phi"].outputs, "phi") }, []string{"phi", "out phi", "missing"}},
		"an output unnamed":  {func(s map[string]signature) { s["phi"].outputs["output_0"] = float(-1, 4) }, []string{"phi", "out output_0", "nothing", "float32 [?, 4]", "unexpected"}},
		"float64":            {func(s map[string]signature) { s["phi"].inputs["obs"] = tensorInfo{t: float64Type, dims: []int{-1, 5}} }, []string{"float32 [n, O]", "float64 [?, 5]", "type"}},
		"a type of the day":  {func(s map[string]signature) { s["phi"].inputs["obs"] = tensorInfo{t: 25, dims: []int{-1, 5}} }, []string{"type 25 [?, 5]", "type"}},
		"no batch":           {func(s map[string]signature) { s["phi"].inputs["obs"] = float(5) }, []string{"float32 [5]", "shape"}},
		"any shape":          {func(s map[string]signature) { s["phi"].inputs["obs"] = tensorInfo{t: float32Type, unranked: true} }, []string{"float32 of any shape", "shape"}},
		"a fixed batch":      {func(s map[string]signature) { s["policy"].inputs["z"] = float(1, 4) }, []string{"policy", "in z", "float32 [1, 4]", "n is fixed"}},
		"no fixed width":     {func(s map[string]signature) { s["policy"].inputs["z"] = float(-1, -1) }, []string{"float32 [?, ?]", "d is not fixed"}},
		"members in the row": {func(s map[string]signature) { s["psi"].outputs["psi"] = float(-1, 3, 4) }, []string{"float32 [E, n, d]", "float32 [?, 3, 4]", "E is not fixed"}},
		"one member":         {func(s map[string]signature) { s["psi"].outputs["psi"] = float(-1, 4) }, []string{"float32 [E, n, d]", "float32 [?, 4]", "shape"}},
		"a size of 2^40":     {func(s map[string]signature) { s["psi"].inputs["z"] = float(-1, 1<<40) }, []string{"psi", "in z", "d is too large"}},
		"another d":          {func(s map[string]signature) { s["phi"].outputs["phi"] = float(-1, 6) }, []string{"phi", "float32 [?, 6]", "d is 4 above"}},
		"another O":          {func(s map[string]signature) { s["policy"].inputs["obs"] = float(-1, 7) }, []string{"policy", "float32 [?, 7]", "O is 5 above"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := fittingSignatures()
			c.spoil(s)
			_, err := match(s, tflite.DefaultSignatures())
			if err == nil {
				t.Fatal("they fit")
			}
			for line := range strings.Lines(err.Error()) {
				if has := func(word string) bool { return strings.Contains(line, word) }; all(c.want, has) {
					return
				}
			}
			t.Errorf("no line with %q in\n%v", c.want, err)
		})
	}
}

func all(words []string, has func(string) bool) bool {
	for _, w := range words {
		if !has(w) {
			return false
		}
	}
	return true
}
