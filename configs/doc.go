// Package configs holds the configuration of a run: its types, ready-made
// files, a strict loader and the JSON Schema for editors.
//
// A configuration is a YAML file. Only its version is required; all other keys
// have the values of [Default]. [Load] takes the name of a ready-made
// configuration (see [Names]) or a path, and changes to single values in the
// form of the option --set:
//
//	cfg, err := configs.Load("rover", "controller.strategy=thompson", "run.episodes=5")
//
// # Strictness
//
// The loader refuses unknown and repeated keys, values of the wrong type or out
// of range, and sections that contradict each other. It converts nothing. It
// reports up to 12 mistakes of a file together. Each is an [Error] with its place
// and a fix:
//
//	rover.yaml:18:3: unknown key controller.kapa; did you mean kappa?
//	   18 |   kapa: 0.1
//	      |   ^^^^
//
// It also refuses anchors, aliases, tags and merge keys of YAML: each line of a
// configuration must be readable without the others.
//
// # Types and rules
//
// [File] consists of the configuration types of the packages that use them.
// Those packages document the keys, set the defaults and check how keys depend
// on each other. The range or the choices of a key are in the tag rule of its
// field (internal/keys), which validation and [Schema] read. A key ends in its
// unit.
package configs
