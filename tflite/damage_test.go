package tflite

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// tiny is the smallest useful architecture; its weights are eighths, exact on
// every machine.
func tiny() (Manifest, map[string]Tensor) {
	m := Manifest{
		Name: "tiny", LayerNormEps: 1e-5, Gamma: 0.9,
		Architecture: Architecture{
			Obs: 2, Action: 1, Latent: 3, NormZ: true,
			F:     ForwardArch{Hidden: 4, HiddenLayers: 1, EmbeddingLayers: 2, NumParallel: 2},
			B:     BackArch{Hidden: 4, HiddenLayers: 2, Norm: true},
			Actor: ActorArch{Hidden: 4, HiddenLayers: 1, EmbeddingLayers: 2},
		},
		Observation: []Channel{{"x", "m"}, {"v", "m/s"}},
		Action:      []Channel{{"u", "N"}},
		Provenance:  map[string]string{"data": "none"},
	}
	tensors := map[string]Tensor{covName: {Shape: []int{3, 3}, F64: []float64{2, 0.5, 0, 0.5, 2, 0.5, 0, 0.5, 2}}}
	for name, shape := range m.Architecture.Tensors() {
		t := Tensor{Shape: shape, F32: make([]float32, elements(shape))}
		for i := range t.F32 {
			t.F32[i] = float32((i*len(name)+1)%17-8) / 8
		}
		tensors[name] = t
	}
	return m, tensors
}

// files encodes a bundle whose hash is right, whatever else is wrong.
func files(t testing.TB, m Manifest, weights []byte) fstest.MapFS {
	t.Helper()
	text, err := encodeManifest(m, hashOf(weights))
	if err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{manifestFileName: {Data: text}, weightsFileName: {Data: weights}}
}

func encodeWeights(t testing.TB, tensors map[string]Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := writeSafetensors(&b, tensors); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// weightsOf builds a safetensors file of any header text.
func weightsOf(header, data string) []byte {
	raw := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(raw, header+data...)
}

func TestABundleIsLoadedAsItWasWritten(t *testing.T) {
	m, tensors := tiny()
	weights := encodeWeights(t, tensors)
	b, err := Load(files(t, m, weights))
	if err != nil {
		t.Fatal(err)
	}
	if b.Name != "tiny" || b.Gamma != 0.9 || b.Architecture != m.Architecture || b.Hash != hashOf(weights) || b.Provenance["data"] != "none" {
		t.Errorf("manifest came back as %+v", b)
	}
	if !slices.Equal(b.ObsChannels(), []string{"x", "v"}) || b.Action[0].Unit != "N" {
		t.Errorf("channels came back as %v and %v", b.Observation, b.Action)
	}
	if b.Dims() != (Dims{Obs: 2, Action: 1, Latent: 3, Ensemble: 2}) {
		t.Errorf("dims %+v", b.Dims())
	}
}

// wants fails unless loading fails with an error that has the words.
func wants(t *testing.T, name string, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: %v, want an error with %q", name, err, words)
	}
}

func TestDamagedWeightsAreRefused(t *testing.T) {
	m, good := tiny()
	whole := encodeWeights(t, good)
	changed := func(change func(tensors map[string]Tensor)) []byte {
		_, tensors := tiny()
		change(tensors)
		return encodeWeights(t, tensors)
	}
	const layer = "_actor.policy.0.weight"
	poke := func(value float32) []byte {
		return changed(func(ts map[string]Tensor) { ts[layer].F32[1] = value })
	}
	for name, c := range map[string]struct {
		weights []byte
		words   string
	}{
		"empty":               {nil, "cut off"},
		"header cut off":      {whole[:100], "cut off inside the header"},
		"data cut off":        {whole[:len(whole)-1], "copy the file again"},
		"data too long":       {append(slices.Clone(whole), 0), "copy the file again"},
		"huge header":         {append([]byte{0, 0, 0, 0, 0, 0, 0, 1}, whole...), "beyond the limit"},
		"negative header":     {append(bytes.Repeat([]byte{255}, 8), whole...), "beyond the limit"},
		"NaN":                 {poke(float32(math.NaN())), "not finite"},
		"infinite":            {poke(float32(math.Inf(-1))), "not finite"},
		"missing tensor":      {changed(func(ts map[string]Tensor) { delete(ts, layer) }), `"` + layer + `" is missing`},
		"missing cov_b":       {changed(func(ts map[string]Tensor) { delete(ts, covName) }), `"cov_b" is missing`},
		"extra tensor":        {changed(func(ts map[string]Tensor) { ts["_critic.0.weight"] = good[layer] }), `unknown tensor "_critic.0.weight"`},
		"wrong shape":         {changed(func(ts map[string]Tensor) { ts[layer] = Tensor{Shape: []int{2, 8}, F32: good[layer].F32} }), "has shape [2 8]"},
		"indefinite cov_b":    {changed(func(ts map[string]Tensor) { ts[covName].F64[0] = -2 }), "not positive definite"},
		"asymmetric cov_b":    {changed(func(ts map[string]Tensor) { ts[covName].F64[1] = -0.5 }), "not symmetric"},
		"no JSON":             {weightsOf("hello", ""), "malformed JSON"},
		"a list":              {weightsOf("[]", ""), "want a JSON object"},
		"cut off JSON":        {weightsOf(`{"a":{"dtype":"F32"`, ""), "malformed JSON"},
		"text after":          {weightsOf(`{}{}`, ""), "more text"},
		"twice":               {weightsOf(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, "12345678"), "twice"},
		"key twice":           {weightsOf(`{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, "1234"), "twice"},
		"negative offset":     {weightsOf(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, ""), "data_offsets"},
		"offsets swapped":     {weightsOf(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, "1234"), "data_offsets"},
		"three offsets":       {weightsOf(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}}`, "1234"), "data_offsets"},
		"offsets beyond":      {weightsOf(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, "1234"), "8 bytes, the file has 4"},
		"overlap":             {weightsOf(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}`, "123456"), "begins at byte 2"},
		"hole":                {weightsOf(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`, "123456781234"), "begins at byte 8"},
		"shape against bytes": {weightsOf(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,4]}}`, "1234"), "takes 12 bytes"},
		"negative dimension":  {weightsOf(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, "1234"), "impossible shape"},
		"shape overflows":     {weightsOf(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, ""), "impossible shape"},
		"unknown dtype":       {weightsOf(`{"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}`, "1"), "not supported"},
		"integers":            {weightsOf(`{"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}`, "12345678"), "not supported"},
		"missing key":         {weightsOf(`{"a":{"dtype":"F32","shape":[1]}}`, "1234"), "missing: data_offsets"},
		"many dimensions":     {weightsOf(`{"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}}`, "1234"), "dimensions"},
	} {
		_, err := Load(files(t, m, c.weights))
		wants(t, name, err, c.words)
	}
}

func TestWeightsThatAreNotTheManifestsAreRefused(t *testing.T) {
	m, tensors := tiny()
	fsys := files(t, m, encodeWeights(t, tensors))
	data := fsys[weightsFileName].Data
	data[len(data)-1] ^= 1
	_, err := Load(fsys)
	wants(t, "one bit", err, "sha256")
	delete(fsys, weightsFileName)
	_, err = Load(fsys)
	wants(t, "no weights", err, weightsFileName)
	delete(fsys, manifestFileName)
	_, err = Load(fsys)
	wants(t, "no manifest", err, manifestFileName)
}

func TestANegativeVarianceIsRefused(t *testing.T) {
	m, _ := tiny()
	m.Architecture.NormObs = true
	_, tensors := tiny()
	tensors[meanName] = Tensor{Shape: []int{2}, F32: []float32{0, 0}}
	tensors[varName] = Tensor{Shape: []int{2}, F32: []float32{1, -1}}
	_, err := Load(files(t, m, encodeWeights(t, tensors)))
	wants(t, "variance", err, "negative")
}

func TestDamagedManifestsAreRefused(t *testing.T) {
	m, tensors := tiny()
	weights := encodeWeights(t, tensors)
	text := string(files(t, m, weights)[manifestFileName].Data)
	replace := func(from, to string) string {
		if !strings.Contains(text, from) {
			t.Fatalf("the manifest has no %q", from)
		}
		return strings.Replace(text, from, to, 1)
	}
	for name, c := range map[string]struct{ text, words string }{
		"empty":            {"", "malformed JSON"},
		"cut off":          {text[:len(text)/2], "malformed JSON"},
		"another format":   {replace(formatName, "bundle"), `format "bundle"`},
		"a later version":  {replace(`"version": 1`, `"version": 2`), "version 2"},
		"unknown key":      {replace(`"name"`, `"colour": "red", "name"`), `unknown key "colour"`},
		"another case":     {replace(`"gamma"`, `"Gamma"`), `unknown key "Gamma"`},
		"missing key":      {replace(`"norm_z": true,`, ``), "architecture: missing: norm_z"},
		"key twice":        {replace(`"gamma": 0.9`, `"gamma": 0.9, "gamma": 0.98`), "twice"},
		"null":             {replace(`"gamma": 0.9`, `"gamma": null`), "gamma: is null"},
		"wrong type":       {replace(`"gamma": 0.9`, `"gamma": "0.9"`), "gamma"},
		"gamma of 1":       {replace(`"gamma": 0.9`, `"gamma": 1`), "gamma is 1"},
		"no name":          {replace(`"name": "tiny"`, `"name": ""`), "name is empty"},
		"no eps":           {replace(`"layernorm_eps": 0.00001`, `"layernorm_eps": 0`), "layernorm_eps"},
		"negative size":    {replace(`"latent": 3`, `"latent": -3`), "latent is -3"},
		"absurd size":      {replace(`"latent": 3`, `"latent": 1000000`), "latent is 1000000"},
		"odd width":        {replace(`"hidden": 4`, `"hidden": 5`), "even"},
		"shallow":          {replace(`"embedding_layers": 2`, `"embedding_layers": 1`), "embedding_layers is 1"},
		"channels missing": {replace(`"unit": "m/s"`, `"unit": "m/s"}, {"name": "w", "unit": ""`), "names 3 channels"},
		"channel's key":    {replace(`"unit": "m/s"`, `"units": "m/s"`), `unknown key "units"`},
		"other sizes":      {replace(`"obs": 2`, `"obs": 1`), "names 2 channels"},
		"more hidden":      {replace(`"hidden_layers": 1`, `"hidden_layers": 2`), "the architecture"},
	} {
		fsys := fstest.MapFS{manifestFileName: {Data: []byte(c.text)}, weightsFileName: {Data: weights}}
		_, err := Load(fsys)
		wants(t, name, err, c.words)
	}
}

const cheetahConfig = `{"obs_dim": 17, "action_dim": 6, "device": "cpu", "archi": {"z_dim": 50, "norm_z": true,
	"f": {"hidden_dim": 256, "model": "simple", "hidden_layers": 1, "embedding_layers": 2, "num_parallel": 2, "ensemble_mode": "batch"},
	"b": {"hidden_dim": 256, "hidden_layers": 2, "norm": true},
	"actor": {"hidden_dim": 256, "model": "simple", "hidden_layers": 1, "embedding_layers": 2}},
	"inference_batch_size": 500000, "seq_length": 1, "actor_std": 0.2, "norm_obs": false}`

func TestWhatACheckpointHasAndWeDoNotIsRefusedByName(t *testing.T) {
	if _, err := parseMetamotivo([]byte(cheetahConfig)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, words string }{
		{`"model": "simple"`, `"model": "residual"`, `archi: f: model: "residual"`},
		{`"ensemble_mode": "batch"`, `"ensemble_mode": "seq"`, `ensemble_mode: "seq"`},
		{`"norm": true`, `"norm": true, "dropout": 0.1`, `unknown key "dropout"`},
		{`"z_dim": 50`, `"z_dim": 50, "discriminator": {}`, `unknown key "discriminator"`},
		{`"norm_z": true,`, ``, "missing: norm_z"},
		{`"z_dim": 50`, `"z_dim": 0`, "latent is 0"},
	} {
		_, err := parseMetamotivo([]byte(strings.Replace(cheetahConfig, c.from, c.to, 1)))
		wants(t, c.to, err, c.words)
	}
}

func TestHalfPrecisionIsWidened(t *testing.T) {
	header := `{"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},"b":{"dtype":"BF16","shape":[1],"data_offsets":[8,10]}}`
	tensors, err := parseSafetensors(weightsOf(header, "\x00\x3c\x00\xc0\x01\x00\xff\x7b\x80\xbf"), func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	if want := []float32{1, -2, float32(math.Ldexp(1, -24)), 65504}; !slices.Equal(tensors["a"].F32, want) {
		t.Errorf("F16: %v, want %v", tensors["a"].F32, want)
	}
	if tensors["b"].F32[0] != -1 {
		t.Errorf("BF16: %v, want -1", tensors["b"].F32)
	}
	if inf := halfToFloat(0xfc00); !math.IsInf(float64(inf), -1) {
		t.Errorf("-Inf became %g", inf)
	}
	if nan := halfToFloat(0x7e00); nan == nan {
		t.Errorf("NaN became %g", nan)
	}
}

func TestWrittenTensorsAreAlignedAndSorted(t *testing.T) {
	_, tensors := tiny()
	raw := encodeWeights(t, tensors)
	if !bytes.Equal(raw, encodeWeights(t, tensors)) {
		t.Error("the same tensors gave other bytes")
	}
	header, _, err := splitHeader(raw)
	if err != nil {
		t.Fatal(err)
	}
	if len(header)%8 != 0 {
		t.Errorf("the data begin at byte %d", 8+len(header))
	}
	err = eachKey(header, func(name string, value json.RawMessage) error {
		s, err := parseSpan(name, value)
		if s.begin%widths[s.dtype] != 0 {
			t.Errorf("%s begins at byte %d", name, s.begin)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func FuzzSafetensorsNeverPanics(f *testing.F) {
	_, tensors := tiny()
	f.Add(encodeWeights(f, tensors))
	f.Add(weightsOf(`{"a":{"dtype":"F16","shape":[],"data_offsets":[0,2]},"__metadata__":{"x":"y"}}`, "12"))
	f.Add(weightsOf(`{"a":{"dtype":"F64","shape":[1,0],"data_offsets":[0,0]}}`, ""))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tensors, err := parseSafetensors(raw, func(string) bool { return false })
		if err != nil {
			return
		}
		for name, tensor := range tensors {
			if elements(tensor.Shape) != len(tensor.F32)+len(tensor.F64) {
				t.Errorf("%q: shape %v with %d numbers", name, tensor.Shape, len(tensor.F32)+len(tensor.F64))
			}
		}
	})
}

func FuzzManifestNeverPanics(f *testing.F) {
	m, _ := tiny()
	text, err := encodeManifest(m, strings.Repeat("0", 64))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":"optibfm-bundle","observation":[{"name":1}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if m, _, err := parseManifest(raw); err == nil && m.Validate() != nil {
			t.Error("an invalid manifest passed")
		}
	})
}

func FuzzMetamotivoConfigNeverPanics(f *testing.F) {
	f.Add([]byte(cheetahConfig))
	f.Add([]byte(`{"archi":{"f":{"model":["simple"]}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if a, err := parseMetamotivo(raw); err == nil && a.Validate() != nil {
			t.Error("an invalid architecture passed")
		}
	})
}

// The whole way from files to a network: what loads, evaluates.
func FuzzBundleNeverPanics(f *testing.F) {
	m, tensors := tiny()
	weights := encodeWeights(f, tensors)
	text, err := encodeManifest(m, hashOf(weights))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, weights)
	f.Fuzz(func(t *testing.T, text, weights []byte) {
		m, _, err := parseManifest(text)
		if err != nil {
			return
		}
		b, err := build(m, weights, func(string) bool { return false }, true)
		if err != nil {
			return
		}
		n, err := b.NewNetwork()
		if err != nil {
			t.Fatal(err)
		}
		d := b.Dims()
		_ = n.Phi(make([]float64, d.Latent), make([]float32, d.Obs))
	})
}
