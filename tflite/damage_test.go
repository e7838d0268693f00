package tflite

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/x448/float16"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// tiny returns a small model with weights that are multiples of 1/8, exact on every
// machine.
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

// files encodes a bundle with the right hash.
func files(t testing.TB, m Manifest, weights []byte) fstest.MapFS {
	t.Helper()
	text, err := encodeManifest(m, hashOf(weights), nil)
	fatal.If(t, err)
	return fstest.MapFS{manifestFileName: {Data: text}, weightsFileName: {Data: weights}}
}

func encodeWeights(t testing.TB, tensors map[string]Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	fatal.If(t, writeSafetensors(&b, tensors))
	return b.Bytes()
}

// weightsOf returns a safetensors file with any text as its header.
func weightsOf(header, data string) []byte {
	raw := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(raw, header+data...)
}

func TestLoad_ReturnsTheSavedBundle(t *testing.T) {
	m, tensors := tiny()
	weights := encodeWeights(t, tensors)
	b, err := Load(files(t, m, weights))
	fatal.If(t, err)
	if !reflect.DeepEqual(b.Manifest, m) || b.Hash != hashOf(weights) {
		t.Errorf("got %+v, want %+v", b, m)
	}
	if b.Dims() != (Dims{Obs: 2, Action: 1, Latent: 3, Ensemble: 2}) {
		t.Errorf("dims %+v", b.Dims())
	}
}

// headerEntry is an entry of a safetensors header.
func headerEntry(name, dtype, shape, offsets string) string {
	return fmt.Sprintf(`"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%s]}`, name, dtype, shape, offsets)
}

// tensorFile is a safetensors file of header entries.
func tensorFile(data string, entries ...string) []byte {
	return weightsOf("{"+strings.Join(entries, ",")+"}", data)
}

func TestLoad_RejectsDamagedWeights(t *testing.T) {
	m, good := tiny()
	whole := encodeWeights(t, good)
	changed := func(change func(tensors map[string]Tensor)) []byte {
		_, tensors := tiny()
		change(tensors)
		return encodeWeights(t, tensors)
	}
	const layer = "_actor.policy.0.weight"
	with := func(value float32) []byte {
		return changed(func(ts map[string]Tensor) { ts[layer].F32[1] = value })
	}
	withCov := func(i int, value float64) []byte {
		return changed(func(ts map[string]Tensor) { ts[covName].F64[i] = value })
	}
	without := func(name string) []byte {
		return changed(func(ts map[string]Tensor) { delete(ts, name) })
	}
	reshaped := changed(func(ts map[string]Tensor) { ts[layer] = Tensor{Shape: []int{2, 8}, F32: good[layer].F32} })
	extra := changed(func(ts map[string]Tensor) { ts["_critic.0.weight"] = good[layer] })
	for name, c := range map[string]struct {
		weights []byte
		words   string
	}{
		"empty":            {nil, "truncated"},
		"header truncated": {whole[:100], "truncated inside the header"},
		"data truncated":   {whole[:len(whole)-1], "copy the file again"},
		"data too long":    {append(slices.Clone(whole), 0), "copy the file again"},
		"huge header":      {append([]byte{0, 0, 0, 0, 0, 0, 0, 1}, whole...), "the header has"},
		"negative header":  {append(bytes.Repeat([]byte{255}, 8), whole...), "the header has"},
		"NaN":              {with(float32(math.NaN())), "not finite"},
		"infinite":         {with(float32(math.Inf(-1))), "not finite"},
		"missing tensor":   {without(layer), `"` + layer + `" is missing`},
		"missing cov_b":    {without(covName), `"cov_b" is missing`},
		"extra tensor":     {extra, `unknown tensor "_critic.0.weight"`},
		"wrong shape":      {reshaped, "has shape [2 8]"},
		"indefinite cov_b": {withCov(0, -2), "not positive definite"},
		"asymmetric cov_b": {withCov(1, -0.5), "not symmetric"},
	} {
		errtest.Contains(t, errtest.Of(Load(files(t, m, c.weights))), c.words, name)
	}
}

func TestLoad_RejectsMalformedHeader(t *testing.T) {
	m, _ := tiny()
	f32 := func(shape, offsets, data string) []byte {
		return tensorFile(data, headerEntry("a", "F32", shape, offsets))
	}
	late := headerEntry("b", "F32", "1", "8,12")
	first := headerEntry("a", "F32", "1", "0,4")
	for name, c := range map[string]struct {
		weights []byte
		words   string
	}{
		"not JSON":            {weightsOf("hello", ""), "malformed JSON"},
		"list":                {weightsOf("[]", ""), "want a JSON object"},
		"truncated JSON":      {weightsOf(`{"a":{"dtype":"F32"`, ""), "malformed JSON"},
		"text after JSON":     {weightsOf(`{}{}`, ""), "text after"},
		"duplicate tensor":    {tensorFile("12345678", first, headerEntry("a", "F32", "1", "4,8")), "duplicate"},
		"duplicate key":       {f32(`1],"shape":[1`, "0,4", "1234"), "duplicate"},
		"negative offset":     {f32("1", "-4,0", ""), "data_offsets"},
		"offsets swapped":     {f32("1", "4,0", "1234"), "data_offsets"},
		"three offsets":       {f32("1", "0,4,8", "1234"), "data_offsets"},
		"offsets beyond data": {f32("2", "0,8", "1234"), "8 bytes, the file has 4"},
		"overlap":             {tensorFile("123456", first, headerEntry("b", "F32", "1", "2,6")), "begins at byte 2"},
		"gap":                 {tensorFile("123456781234", first, late), "begins at byte 8"},
		"shape against bytes": {f32("3", "0,4", "1234"), "takes 12 bytes"},
		"negative dimension":  {f32("-1", "0,4", "1234"), "impossible shape"},
		"shape overflows":     {f32("4611686018427387904,4", "0,0", ""), "impossible shape"},
		"unknown dtype":       {tensorFile("1", headerEntry("a", "F8_E4M3", "1", "0,1")), "not supported"},
		"integers":            {tensorFile("12345678", headerEntry("a", "I64", "1", "0,8")), "not supported"},
		"missing key":         {tensorFile("1234", `"a":{"dtype":"F32","shape":[1]}`), "missing keys: data_offsets"},
		"many dimensions":     {f32("1,1,1,1,1,1,1,1,1", "0,4", "1234"), "dimensions"},
	} {
		errtest.Contains(t, errtest.Of(Load(files(t, m, c.weights))), c.words, name)
	}
}

func TestLoad_RejectsWeightsWithAnotherHash(t *testing.T) {
	m, tensors := tiny()
	fsys := files(t, m, encodeWeights(t, tensors))
	data := fsys[weightsFileName].Data
	data[len(data)-1] ^= 1
	_, err := Load(fsys)
	errtest.Contains(t, err, "sha256", "one bit")
	delete(fsys, weightsFileName)
	_, err = Load(fsys)
	errtest.Contains(t, err, weightsFileName, "no weights")
	delete(fsys, manifestFileName)
	errtest.Contains(t, errtest.Of(Load(fsys)), manifestFileName, "no manifest")
}

func TestLoad_RejectsNegativeVariance(t *testing.T) {
	m, _ := tiny()
	m.Architecture.NormObs = true
	_, tensors := tiny()
	tensors[meanName] = Tensor{Shape: []int{2}, F32: []float32{0, 0}}
	tensors[varName] = Tensor{Shape: []int{2}, F32: []float32{1, -1}}
	errtest.Contains(t, errtest.Of(Load(files(t, m, encodeWeights(t, tensors)))), "negative", "variance")
}

func TestLoad_RejectsDamagedManifest(t *testing.T) {
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
		"truncated":        {text[:len(text)/2], "malformed JSON"},
		"other format":     {replace(formatName, "bundle"), `format "bundle"`},
		"later version":    {replace(`"version": 2`, `"version": 3`), "version 3"},
		"unknown key":      {replace(`"name"`, `"colour": "red", "name"`), `unknown key "colour"`},
		"other case":       {replace(`"gamma"`, `"Gamma"`), `unknown key "Gamma"`},
		"missing key":      {replace(`"norm_z": true,`, ``), "architecture: missing keys: norm_z"},
		"duplicate key":    {replace(`"gamma": 0.9`, `"gamma": 0.9, "gamma": 0.98`), "duplicate"},
		"null":             {replace(`"gamma": 0.9`, `"gamma": null`), "gamma: null"},
		"wrong type":       {replace(`"gamma": 0.9`, `"gamma": "0.9"`), "gamma"},
		"gamma of 1":       {replace(`"gamma": 0.9`, `"gamma": 1`), "gamma is 1"},
		"no name":          {replace(`"name": "tiny"`, `"name": ""`), "name is empty"},
		"no eps":           {replace(`"layernorm_eps": 0.00001`, `"layernorm_eps": 0`), "layernorm_eps"},
		"negative size":    {replace(`"latent": 3`, `"latent": -3`), "latent is -3"},
		"huge size":        {replace(`"latent": 3`, `"latent": 1000000`), "latent is 1000000"},
		"odd width":        {replace(`"hidden": 4`, `"hidden": 5`), "even numbers"},
		"shallow":          {replace(`"embedding_layers": 2`, `"embedding_layers": 1`), "embedding_layers is 1"},
		"channels missing": {replace(`"unit": "m/s"`, `"unit": "m/s"}, {"name": "w", "unit": ""`), "names 3 channels"},
		"channel's key":    {replace(`"unit": "m/s"`, `"units": "m/s"`), `unknown key "units"`},
		"other sizes":      {replace(`"obs": 2`, `"obs": 1`), "names 2 channels"},
		"more hidden":      {replace(`"hidden_layers": 1`, `"hidden_layers": 2`), "has shape"},
	} {
		fsys := fstest.MapFS{manifestFileName: {Data: []byte(c.text)}, weightsFileName: {Data: weights}}
		errtest.Contains(t, errtest.Of(Load(fsys)), c.words, name)
	}
}

const cheetahConfig = `{"obs_dim": 17, "action_dim": 6, "device": "cpu", "archi": {"z_dim": 50, "norm_z": true,
	"f": {"hidden_dim": 256, "model": "simple", "hidden_layers": 1, "embedding_layers": 2, "num_parallel": 2,
		"ensemble_mode": "batch"},
	"b": {"hidden_dim": 256, "hidden_layers": 2, "norm": true},
	"actor": {"hidden_dim": 256, "model": "simple", "hidden_layers": 1, "embedding_layers": 2}},
	"inference_batch_size": 500000, "seq_length": 1, "actor_std": 0.2, "norm_obs": false}`

func TestParseCheckpoint_NamesUnsupportedKeys(t *testing.T) {
	fatal.If(t, errtest.Of(parseCheckpoint([]byte(cheetahConfig), nil)))
	for _, c := range []struct{ from, to, words string }{
		{`"model": "simple"`, `"model": "transformer"`, `archi: f: model: "transformer"`},
		{`"ensemble_mode": "batch"`, `"ensemble_mode": "seq"`, `ensemble_mode: "seq"`},
		{`"norm": true`, `"norm": true, "dropout": 0.1`, `unknown key "dropout"`},
		{`"z_dim": 50`, `"z_dim": 50, "world_model": {}`, `unknown key "world_model"`},
		{`"norm_z": true`, `"norm_z": "yes"`, `norm_z: "yes", want true or false`},
		{`"norm_z": true,`, ``, "missing keys: norm_z"},
		{`"z_dim": 50`, `"z_dim": 0`, "latent is 0"},
	} {
		_, err := parseCheckpoint([]byte(strings.Replace(cheetahConfig, c.from, c.to, 1)), nil)
		errtest.Contains(t, err, c.words, c.to)
	}
}

const bfmZeroConfig = `{"name": "FBcprAuxModel", "device": "cpu", "archi": {"name": "x", "z_dim": 5, "norm_z": 1,
	"f": {"name": "ForwardArchi", "hidden_dim": 8, "model": "residual", "hidden_layers": 3, "embedding_layers": 2,
		"num_parallel": 2, "ensemble_mode": "batch",
		"input_filter": {"name": "DictInputFilterConfig", "key": ["state", "privileged_state", "last_action"]}},
	"b": {"name": "BackwardArchi", "hidden_dim": 6, "hidden_layers": 1, "norm": true,
		"input_filter": {"name": "DictInputFilterConfig", "key": ["state", "privileged_state"]}},
	"actor": {"name": "actor", "model": "residual", "hidden_dim": 8, "hidden_layers": 1, "embedding_layers": 2,
		"input_filter": {"name": "DictInputFilterConfig", "key": "state"}},
	"critic": {}, "discriminator": {}, "aux_critic": {}},
	"obs_normalizer": {"name": "ObsNormalizerConfig", "allow_mismatching_keys": true, "normalizers": {
		"state": {"name": "BatchNormNormalizerConfig", "momentum": 0.01},
		"privileged_state": {"name": "BatchNormNormalizerConfig", "momentum": 0.01},
		"last_action": {"name": "IdentityNormalizerConfig"}}},
	"inference_batch_size": 500000, "seq_length": 8, "actor_std": 0.05, "amp": false, "norm_aux_reward": {}}`

const bfmZeroInit = `{"obs_space": {"type": "Dict", "spaces": {
	"last_action": {"low": [-Infinity, NaN], "high": [Infinity, Infinity], "shape": [2], "dtype": "float32",
		"type": "Box"},
	"privileged_state": {"low": [], "high": [], "shape": [3], "dtype": "float32", "type": "Box"},
	"state": {"low": [], "high": [], "shape": [4], "dtype": "float32", "type": "Box"}}}, "action_dim": 2}`

func parseArchitecture(config, init string) (Architecture, error) {
	l, err := parseCheckpoint([]byte(config), []byte(init))
	return l.Architecture, err
}

func TestParseCheckpoint_ReadsGroups(t *testing.T) {
	a, err := parseArchitecture(bfmZeroConfig, bfmZeroInit)
	fatal.If(t, err)
	want := Architecture{
		Obs: 9, Action: 2, Latent: 5, NormZ: true,
		Groups: []Group{{"state", 4, true}, {"privileged_state", 3, true}, {"last_action", 2, false}},
		F: ForwardArch{Hidden: 8, HiddenLayers: 3, EmbeddingLayers: 3, NumParallel: 2, Residual: true,
			Inputs: []string{"state", "privileged_state", "last_action"}},
		B:     BackArch{Hidden: 6, HiddenLayers: 1, Norm: true, Inputs: []string{"state", "privileged_state"}},
		Actor: ActorArch{Hidden: 8, HiddenLayers: 1, EmbeddingLayers: 2, Residual: true, Inputs: []string{"state"}},
	}
	if !reflect.DeepEqual(a, want) {
		t.Errorf("got %+v, want %+v", a, want)
	}
}

func TestParseCheckpoint_NamesDamagedGroups(t *testing.T) {
	for _, c := range []struct{ from, to, words string }{
		{`"key": "state"`, `"key": "stat"`, `init_kwargs.json: obs_space has no group "stat"`},
		{`"key": "state"`, `"key": []`, `actor.inputs is empty`},
		{`"key": "state"`, `"key": ["state", "state"]`, `"state" is unknown or occurs twice`},
		{`"key": "state"`, `"key": 3`, "actor: input_filter: key:"},
		{`"name": "DictInputFilterConfig"`, `"name": "Other"`, `"Other" is not supported`},
		{`"name": "ForwardArchi"`, `"name": "ForwardFilterArchi"`, `f: name: "ForwardFilterArchi"`},
		{`"name": "BatchNormNormalizerConfig"`, `"name": "Log"`, `state: name: "Log"`},
		{`"last_action": {"name": "IdentityNormalizerConfig"}`, `"other": {"name": "IdentityNormalizerConfig"}`,
			`config.json: obs_normalizer has no group "last_action"`},
		{`"shape": [2]`, `"shape": [2, 3]`, "last_action: shape is [2 3]"},
		{`"shape": [2]`, `"shape": [-2]`, `size of "last_action" is -2`},
		{`"shape": [2]`, `"shape": [9000000000000000000]`, "obs is 9000000000000000007"},
		{`"type": "Dict"`, `"type": "Box"`, `obs_space: unknown key "spaces"`},
		{`"type": "Dict"`, `"type": "Discrete"`, `obs_space: type: "Discrete"`},
		{`"action_dim": 2`, `"action_dim": 0`, "action is 0"},
		{`"hidden_layers": 3`, `"hidden_layers": 1`, "f.embedding_layers is 1"},
		{`"action_dim": 2}`, ``, "init_kwargs.json: malformed JSON"},
	} {
		config, init := strings.Replace(bfmZeroConfig, c.from, c.to, 1), strings.Replace(bfmZeroInit, c.from, c.to, 1)
		if config == bfmZeroConfig && init == bfmZeroInit {
			t.Errorf("%q does not occur", c.from)
		}
		errtest.Contains(t, errtest.Of(parseCheckpoint([]byte(config), []byte(init))), c.words, c.to)
	}
	_, err := parseCheckpoint([]byte(bfmZeroConfig), nil)
	errtest.Contains(t, err, "init_kwargs.json", "no init_kwargs.json")
}

func TestLoadDir_RejectsDamagedBFMZeroWeights(t *testing.T) {
	a, err := parseArchitecture(bfmZeroConfig, bfmZeroInit)
	fatal.If(t, err)
	const mean = "_obs_normalizer._normalizers.state._normalizer.running_mean"
	for name, c := range map[string]struct {
		change func(ts map[string]Tensor)
		words  string
	}{
		"whole":           {func(map[string]Tensor) {}, ""},
		"training's":      {func(ts map[string]Tensor) { ts["_aux_critic.Fs.0.weight"] = ts[mean] }, ""},
		"no normaliser":   {func(ts map[string]Tensor) { delete(ts, mean) }, mean + `" is missing`},
		"no block":        {func(ts map[string]Tensor) { delete(ts, "_actor.policy.1.mlp.0.bias") }, "1.mlp.0.bias"},
		"unknown network": {func(ts map[string]Tensor) { ts["_world.0.weight"] = ts[mean] }, `unknown tensor "_world`},
		"short mean": {
			func(ts map[string]Tensor) { ts[mean] = Tensor{Shape: []int{3}, F32: make([]float32, 3)} },
			"shape [3], want [4]",
		},
		"NaN": {func(ts map[string]Tensor) { ts[mean].F32[2] = float32(math.NaN()) }, "element 2 is not finite"},
	} {
		tensors := constants(a)
		c.change(tensors)
		_, err := loadAny(fstest.MapFS{
			CheckpointFileName: {Data: []byte(bfmZeroConfig)}, initFileName: {Data: []byte(bfmZeroInit)},
			weightsFileName: {Data: encodeWeights(t, tensors)},
		}, "g1", &packing{})
		if c.words == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		} else if c.words != "" {
			errtest.Contains(t, err, c.words, name)
		}
	}
	whole := encodeWeights(t, constants(a))
	for _, size := range []int{0, 7, 100, len(whole) / 2, len(whole) - 1} {
		_, err := loadAny(fstest.MapFS{
			CheckpointFileName: {Data: []byte(bfmZeroConfig)}, initFileName: {Data: []byte(bfmZeroInit)},
			weightsFileName: {Data: whole[:size]},
		}, "g1", &packing{})
		errtest.Contains(t, err, "copy the file again", fmt.Sprint("truncated to ", size))
	}
}

// constants returns tensors in which every element is ½.
func constants(a Architecture) map[string]Tensor {
	tensors := make(map[string]Tensor)
	for name, shape := range a.Tensors() {
		tensors[name] = Tensor{Shape: shape, F32: slices.Repeat([]float32{0.5}, elements(shape))}
	}
	return tensors
}

func TestManifest_KeepsGroups(t *testing.T) {
	m, _ := tiny()
	var err error
	if m.Architecture, err = parseArchitecture(bfmZeroConfig, bfmZeroInit); err != nil {
		t.Fatal(err)
	}
	m.Observation, m.Action = nil, nil
	text, err := encodeManifest(m, strings.Repeat("0", 64), nil)
	fatal.If(t, err)
	b, err := parseManifest(text)
	if err != nil || !reflect.DeepEqual(b.Architecture, m.Architecture) {
		t.Errorf("%+v, %v", b, err)
	}
	for _, c := range []struct{ from, to, words string }{
		{`"name": "state"`, `"name": "stat"`, `f.inputs: group "state" is unknown`},
		{`"name": "state"`, `"name": "last_action"`, `"last_action" is empty or occurs twice`},
		{`"size": 4`, `"size": 5`, "the groups have 10 elements, obs is 9"},
		{`"norm_obs": false`, `"norm_obs": true`, "each group has its own norm_obs"},
		{`"size": 4,`, ``, "group 0: missing keys: size"},
	} {
		_, err := parseManifest([]byte(strings.Replace(string(text), c.from, c.to, 1)))
		errtest.Contains(t, err, c.words, c.to)
	}
}

func TestParseSafetensors_ConvertsHalfPrecision(t *testing.T) {
	raw := weightsOf(`{"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},`+
		`"b":{"dtype":"BF16","shape":[1],"data_offsets":[8,10]}}`, "\x00\x3c\x00\xc0\x01\x00\xff\x7b\x80\xbf")
	tensors, err := parseSafetensors(raw)
	fatal.If(t, err)
	if want := []float32{1, -2, float32(math.Ldexp(1, -24)), 65504}; !slices.Equal(tensors["a"].float32s(), want) {
		t.Errorf("F16: %v, want %v", tensors["a"].F16, want)
	}
	if tensors["b"].F32[0] != -1 {
		t.Errorf("BF16: %v, want -1", tensors["b"].F32)
	}
	for _, bits := range []uint16{0xfc00, 0x7e00} { // -Inf, NaN
		if _, ok := (Tensor{F16: []float16.Float16{float16.Frombits(bits)}}).finite(); ok {
			t.Errorf("%#x is finite", bits)
		}
	}
}

func TestReadSafetensors_AcceptsNamesOfTorch(t *testing.T) {
	for name, want := range map[string]string{
		"_orig_mod._actor.net.weight": "_actor.net.weight", "module._actor.bias": "_actor.bias",
		"_actor._orig_mod.module.net": "_actor.net", "_actor.modules": "_actor.modules",
	} {
		tensors, err := parseSafetensors(weightsOf(`{"`+name+`":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, "1234"))
		if _, ok := tensors[want]; err != nil || !ok {
			t.Errorf("%s: %v, %v", name, tensors, err)
		}
	}
	_, err := parseSafetensors(weightsOf(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},`+
		`"module.a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, "12345678"))
	errtest.Contains(t, err, `"module.a" are the same`, "twice")
}

func TestReadSafetensors_SkipsOtherTypes(t *testing.T) {
	raw := weightsOf(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},`+
		`"_critic.i":{"dtype":"I32","shape":[1],"data_offsets":[4,8]},`+
		`"_critic.b":{"dtype":"BOOL","shape":[2],"data_offsets":[8,10]},`+
		`"_critic.u":{"dtype":"U8","shape":[1],"data_offsets":[10,11]}}`, "12345678901")
	tensors, err := readSafetensors(bytes.NewReader(raw), int64(len(raw)), reading{skip: layout{}.skips})
	if err != nil || len(tensors) != 1 {
		t.Errorf("%v, %v", tensors, err)
	}
	errtest.Contains(t, errtest.Of(parseSafetensors(raw)), "is not supported; save it as F32", "asked for")
}

func TestReadSafetensors_NamesOtherFiles(t *testing.T) {
	for text, words := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\noid sha256:1": "git lfs pull",
		"<!DOCTYPE html><html></html>":                             "a web page",
		"PK\x03\x04 archive/data.pkl":                              "a zip archive",
	} {
		_, err := parseSafetensors([]byte(text))
		errtest.Contains(t, err, words, text)
		if text[0] != 'P' {
			errtest.Contains(t, errtest.Of(parseManifest([]byte(text))), words, text)
		}
	}
}

func TestWriteSafetensors_AlignsAndSortsTensors(t *testing.T) {
	_, tensors := tiny()
	raw := encodeWeights(t, tensors)
	if !bytes.Equal(raw, encodeWeights(t, tensors)) {
		t.Error("the same tensors gave different bytes")
	}
	header, err := readHeader(bytes.NewReader(raw), int64(len(raw)))
	fatal.If(t, err)
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
	errtest.Nil(t, err)
}

func FuzzSafetensorsNeverPanics(f *testing.F) {
	_, tensors := tiny()
	f.Add(encodeWeights(f, tensors))
	f.Add(weightsOf(`{"a":{"dtype":"F16","shape":[],"data_offsets":[0,2]},"__metadata__":{"x":"y"}}`, "12"))
	f.Add(weightsOf(`{"a":{"dtype":"F64","shape":[1,0],"data_offsets":[0,0]}}`, ""))
	f.Fuzz(func(t *testing.T, raw []byte) {
		tensors, err := parseSafetensors(raw)
		if err != nil {
			return
		}
		for name, tensor := range tensors {
			if elements(tensor.Shape) != tensor.count() {
				t.Errorf("%q: shape %v with %d numbers", name, tensor.Shape, tensor.count())
			}
		}
	})
}

func FuzzManifestNeverPanics(f *testing.F) {
	m, _ := tiny()
	text, err := encodeManifest(m, strings.Repeat("0", 64), nil)
	fatal.If(f, err)
	f.Add(text)
	if m.Architecture, err = parseArchitecture(bfmZeroConfig, bfmZeroInit); err != nil {
		f.Fatal(err)
	}
	m.Observation, m.Action = nil, nil
	if text, err = encodeManifest(m, strings.Repeat("0", 64), nil); err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":"optibfm-bundle","observation":[{"name":1}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if m, err := parseManifest(raw); err == nil && m.Validate() != nil {
			t.Error("an invalid manifest passed")
		}
	})
}

func FuzzCheckpointConfigNeverPanics(f *testing.F) {
	f.Add([]byte(cheetahConfig), []byte(nil))
	f.Add([]byte(`{"archi":{"f":{"model":["simple"]}}}`), []byte(nil))
	f.Add([]byte(bfmZeroConfig), []byte(bfmZeroInit))
	for _, name := range checkpoints {
		files := checkpointFiles(f, name)
		var init []byte
		if file := files[initFileName]; file != nil {
			init = file.Data
		}
		f.Add(files[CheckpointFileName].Data, init)
	}
	f.Fuzz(func(t *testing.T, config, init []byte) {
		a, err := parseCheckpoint(config, init)
		if err != nil {
			return
		}
		if a.Validate() != nil {
			t.Error("an invalid architecture passed")
		}
		a.Tensors()
	})
}

// FuzzBundleNeverPanics loads a bundle and evaluates what loads.
func FuzzBundleNeverPanics(f *testing.F) {
	m, tensors := tiny()
	weights := encodeWeights(f, tensors)
	text, err := encodeManifest(m, hashOf(weights), nil)
	fatal.If(f, err)
	f.Add(text, weights)
	if m.Architecture, err = parseArchitecture(bfmZeroConfig, bfmZeroInit); err != nil {
		f.Fatal(err)
	}
	m.Observation, m.Action = nil, nil
	tensors = constants(m.Architecture)
	tensors[covName] = Tensor{Shape: []int{5, 5}, F64: make([]float64, 25)}
	for i := range 5 {
		tensors[covName].F64[6*i] = 1
	}
	weights = encodeWeights(f, tensors)
	if text, err = encodeManifest(m, hashOf(weights), nil); err != nil {
		f.Fatal(err)
	}
	f.Add(text, weights)
	f.Fuzz(func(t *testing.T, text, weights []byte) {
		m, err := parseManifest(text)
		if err != nil {
			return
		}
		tensors, err := parseSafetensors(weights)
		if err != nil {
			return
		}
		b, err := build(m.Manifest, tensors, "", true, &packing{})
		if err != nil {
			return
		}
		n, err := b.NewNetwork()
		fatal.If(t, err)
		d := b.Dims()
		z := make([]float64, d.Latent)
		z[0] = 1
		_ = n.Phi(make([]float64, d.Latent), make([]float32, d.Obs))
		_ = n.Act(make([]float32, d.Action), make([]float32, d.Obs), z)
	})
}
