// Package configs holds the configuration of a run: its types, ready-made
// files, a strict loader and the JSON Schema for editors.
//
// A configuration is a YAML file of which every part may be left out but the
// version; what is left out has the value of [Default]. [Load] takes the name
// of a ready-made configuration (see [Names]) or a path, and changes to single
// values as the command line's --set gives them:
//
//	cfg, err := configs.Load("rover", "controller.strategy=thompson", "run.episodes=5")
//
// # Strictness
//
// A configuration that is not understood entirely is refused: an unknown or
// repeated key, a number where text belongs, a value out of range, sections
// that contradict each other. Every mistake is an [Error] that points to its
// place and says what to write instead:
//
//	rover.yaml:18:3: controller.kapa is no key: did you mean kappa?
//	   18 |   kapa: 0.1
//	      |   ^^^^
//
// Anchors, aliases, tags and merge keys of YAML are refused too: what a robot
// does shall be readable on the line that says it.
//
// # Types
//
// [File] is put together from the configuration types of the packages that
// use them, so that a key is documented, given its default and checked where
// it is used. Keys carry their unit.
package configs
