package configs

import _ "embed"

// TestSchema_IsUpToDate generates the schema from the types, their comments,
// the limits and the defaults.
//
//go:generate go test . -run TestSchema_IsUpToDate -update
//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of a configuration. Editors
// complete and check keys with it.
func Schema() []byte { return append([]byte(nil), schema...) }
