//go:build tensorflow

package tensorflow

import (
	"slices"
	"strings"
	"testing"

	"optibfm/tflite"
)

// These tests need no library.

// float is a float32 tensor of a shape; -1 is not fixed.
func float(dims ...int) tensorInfo { return tensorInfo{name: "x:0", t: float32Type, dims: dims} }

// validSignatures are those of a model with O = 5, A = 2, d = 4 and E = 3.
func validSignatures() map[string]signature {
	type tensors = map[string]tensorInfo
	return map[string]signature{
		"phi":    {tensors{"obs": float(-1, 5)}, tensors{"phi": float(-1, 4)}},
		"policy": {tensors{"obs": float(-1, 5), "z": float(-1, 4)}, tensors{"action": float(-1, 2)}},
		"psi": {
			tensors{"obs": float(-1, 5), "action": float(-1, 2), "z": float(-1, 4)}, tensors{"psi": float(3, -1, 4)},
		},
	}
}

func TestMatch_ReturnsTheSizes(t *testing.T) {
	f, err := match(validSignatures(), tflite.DefaultSignatures())
	if err != nil || f.dims != (tflite.Dims{Obs: 5, Action: 2, Latent: 4, Ensemble: 3}) || len(f.psi.inputs) != 3 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestMatch_ErrorListsExpectedAndFound(t *testing.T) {
	type signatures = map[string]signature
	float64Info := tensorInfo{t: float64Type, dims: []int{-1, 5}}
	unknownType := tensorInfo{t: 25, dims: []int{-1, 5}}
	unranked := tensorInfo{t: float32Type, unranked: true}
	input := func(name, key string, info tensorInfo) func(signatures) {
		return func(s signatures) { s[name].inputs[key] = info }
	}
	output := func(name, key string, info tensorInfo) func(signatures) {
		return func(s signatures) { s[name].outputs[key] = info }
	}
	cases := map[string]struct {
		change func(signatures)
		want   string // words of one line, separated by |
	}{
		"missing signature": {func(s signatures) { delete(s, "policy") }, "policy|nothing|missing"},
		"missing input": {
			func(s signatures) { delete(s["psi"].inputs, "action") }, "psi|in action|float32 [n, A]|nothing|missing",
		},
		"missing output": {func(s signatures) { delete(s["phi"].outputs, "phi") }, "phi|out phi|missing"},
		"unnamed output": {
			output("phi", "output_0", float(-1, 4)), "phi|out output_0|nothing|float32 [?, 4]|unexpected",
		},
		"float64":        {input("phi", "obs", float64Info), "float32 [n, O]|float64 [?, 5]|type"},
		"unknown type":   {input("phi", "obs", unknownType), "type 25 [?, 5]|type"},
		"no batch":       {input("phi", "obs", float(5)), "float32 [5]|shape"},
		"any shape":      {input("phi", "obs", unranked), "float32 of any shape|shape"},
		"fixed batch":    {input("policy", "z", float(1, 4)), "policy|in z|float32 [1, 4]|n is fixed"},
		"no fixed width": {input("policy", "z", float(-1, -1)), "float32 [?, ?]|d is not fixed"},
		"members in the row": {
			output("psi", "psi", float(-1, 3, 4)), "float32 [E, n, d]|float32 [?, 3, 4]|E is not fixed",
		},
		"one member":   {output("psi", "psi", float(-1, 4)), "float32 [E, n, d]|float32 [?, 4]|shape"},
		"size of 2^40": {input("psi", "z", float(-1, 1<<40)), "psi|in z|d is too large"},
		"other d":      {output("phi", "phi", float(-1, 6)), "phi|float32 [?, 6]|d is 4 above"},
		"other O":      {input("policy", "obs", float(-1, 7)), "policy|float32 [?, 7]|O is 5 above"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := validSignatures()
			c.change(s)
			_, err := match(s, tflite.DefaultSignatures())
			if err == nil {
				t.Fatal("no error")
			}
			for line := range strings.Lines(err.Error()) {
				missing := func(word string) bool { return !strings.Contains(line, word) }
				if !slices.ContainsFunc(strings.Split(c.want, "|"), missing) {
					return
				}
			}
			t.Errorf("no line with %q in\n%v", c.want, err)
		})
	}
}
