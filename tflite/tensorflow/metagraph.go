//go:build tensorflow

package tensorflow

import (
	"google.golang.org/protobuf/encoding/protowire"

	"optibfm/tflite/internal/wire"
)

// This file reads the signatures of a SavedModel, from MetaGraphDef in
// tensorflow/core/protobuf/meta_graph.proto.

// signature is a function of a SavedModel: its tensors by their keys.
type signature struct {
	inputs, outputs map[string]tensorInfo
}

// tensorInfo is a tensor's name in the graph, its type and its shape; -1 is a
// size that is not fixed.
type tensorInfo struct {
	name     string
	t        dtype
	dims     []int
	unranked bool // not even the number of dimensions is fixed
}

func readSignatures(metaGraph []byte) (map[string]signature, error) {
	signatures := make(map[string]signature)
	err := wire.EachField(metaGraph, func(field protowire.Number, entry []byte, _ uint64) error {
		if field != 5 { // signature_def
			return nil
		}
		return mapEntry(entry, func(name string, value []byte) error {
			s := signature{make(map[string]tensorInfo), make(map[string]tensorInfo)}
			signatures[name] = s
			return wire.EachField(value, func(field protowire.Number, entry []byte, _ uint64) error {
				into, ok := map[protowire.Number]map[string]tensorInfo{1: s.inputs, 2: s.outputs}[field]
				if !ok {
					return nil
				}
				return mapEntry(entry, func(key string, info []byte) (err error) {
					into[key], err = readTensorInfo(info)
					return err
				})
			})
		})
	})
	return signatures, err
}

// mapEntry reads an entry of a map from strings to messages.
func mapEntry(entry []byte, f func(key string, value []byte) error) error {
	var key string
	var value []byte
	err := wire.EachField(entry, func(field protowire.Number, v []byte, _ uint64) error {
		switch field {
		case 1:
			key = string(v)
		case 2:
			value = v
		}
		return nil
	})
	if err != nil {
		return err
	}
	return f(key, value)
}

func readTensorInfo(raw []byte) (tensorInfo, error) {
	var info tensorInfo
	err := wire.EachField(raw, func(field protowire.Number, value []byte, number uint64) error {
		switch field {
		case 1:
			info.name = string(value)
		case 2:
			info.t = dtype(number)
		case 3:
			return wire.EachField(value, func(field protowire.Number, dim []byte, number uint64) error {
				if field == 3 {
					info.unranked = number != 0
				}
				if field != 2 {
					return nil
				}
				size := 0
				err := wire.EachField(dim, func(field protowire.Number, _ []byte, number uint64) error {
					if field == 1 {
						size = int(int64(number))
					}
					return nil
				})
				info.dims = append(info.dims, size)
				return err
			})
		}
		return nil
	})
	return info, err
}
