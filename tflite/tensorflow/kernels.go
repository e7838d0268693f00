//go:build tensorflow

package tensorflow

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"optibfm/tflite/internal/wire"
)

// opUse is an operation with the types by which TensorFlow chooses its kernel.
type opUse struct {
	op    string
	types map[string]dtype // by the names of its attributes
	nodes int
}

// countUses counts the operations of a GraphDef.
func countUses(graphDef []byte) (map[string]*opUse, error) {
	uses := make(map[string]*opUse)
	err := wire.EachField(graphDef, func(field protowire.Number, node []byte, _ uint64) error {
		if field != 1 {
			return nil
		}
		u := opUse{types: make(map[string]dtype)}
		if err := u.read(node); err != nil {
			return err
		}
		key := fmt.Sprintf("%s %v", u.op, u.types)
		if uses[key] == nil {
			uses[key] = &u
		}
		uses[key].nodes++
		return nil
	})
	return uses, err
}

// read parses the operation and the types of a NodeDef.
func (u *opUse) read(node []byte) error {
	return wire.EachField(node, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case 2:
			u.op = string(value)
		case 5:
			return mapEntry(value, func(name string, attribute []byte) error {
				return wire.EachField(attribute, func(field protowire.Number, _ []byte, number uint64) error {
					if field == 6 {
						u.types[name] = dtype(number)
					}
					return nil
				})
			})
		}
		return nil
	})
}

// kernelsOf returns the devices for which the library has kernels of a graph's
// operations, at the types that the graph uses.
func (a *api) kernelsOf(graphDef []byte) ([]Kernel, error) {
	uses, err := countUses(graphDef)
	if err != nil {
		return nil, fmt.Errorf("tensorflow: parse the graph: %w", err)
	}
	byOp := make(map[string]*Kernel)
	for _, u := range uses {
		cpu, gpu, err := a.registered(*u)
		if err != nil {
			return nil, err
		}
		k, ok := byOp[u.op]
		if !ok {
			k = &Kernel{Op: u.op, CPU: true, GPU: true}
			byOp[u.op] = k
		}
		k.Nodes += u.nodes
		k.CPU, k.GPU = k.CPU && cpu, k.GPU && gpu
	}
	var all []Kernel
	for _, k := range byOp {
		all = append(all, *k)
	}
	slices.SortFunc(all, func(x, y Kernel) int { return cmp.Compare(x.Op, y.Op) })
	return all, nil
}

// anyDevice is the device type of kernels that do not compute.
const anyDevice = "DEFAULT"

// registered reports whether the library has a kernel for the CPU and for the GPU.
func (a *api) registered(u opUse) (cpu, gpu bool, err error) {
	var buffer handle
	if err := a.withStatus(func(status handle) { buffer = a.kernels(u.op, status) }); err != nil {
		return false, false, fmt.Errorf("tensorflow: kernels of %s: %w", u.op, err)
	}
	defer a.deleteBuffer(buffer)
	// KernelList, tensorflow/core/framework/kernel_def.proto.
	err = wire.EachField(bytesOf(buffer), func(field protowire.Number, kernel []byte, _ uint64) error {
		device, fits, err := kernelFor(kernel, u.types)
		cpu = cpu || fits && (device == "CPU" || device == anyDevice)
		gpu = gpu || fits && (device == "GPU" || device == anyDevice)
		return err
	})
	return cpu, gpu, err
}

// kernelFor parses a KernelDef: its device, and whether its constraints allow the
// types.
func kernelFor(kernel []byte, of map[string]dtype) (device string, fits bool, err error) {
	fits = true
	err = wire.EachField(kernel, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case 2:
			device = string(value)
		case 3:
			name, types, err := constraint(value)
			if t, ok := of[name]; ok && !slices.Contains(types, t) {
				fits = false
			}
			return err
		}
		return nil
	})
	return device, fits, err
}

// constraint parses a KernelDef.AttrConstraint: an attribute and its types.
func constraint(raw []byte) (name string, types []dtype, err error) {
	err = wire.EachField(raw, func(field protowire.Number, value []byte, _ uint64) error {
		switch field {
		case 1:
			name = string(value)
		case 2: // an AttrValue with a list of types
			return wire.EachField(value, func(field protowire.Number, list []byte, _ uint64) error {
				if field != 1 {
					return nil
				}
				return wire.EachField(list, func(field protowire.Number, packed []byte, single uint64) error {
					if field == 6 {
						types = append(types, typesOf(packed, single)...)
					}
					return nil
				})
			})
		}
		return nil
	})
	return name, types, err
}

// typesOf parses a repeated enum, packed or one at a time.
func typesOf(packed []byte, single uint64) []dtype {
	if packed == nil {
		return []dtype{dtype(single)}
	}
	var types []dtype
	for len(packed) > 0 {
		v, n := protowire.ConsumeVarint(packed)
		if n < 0 {
			return types
		}
		types, packed = append(types, dtype(v)), packed[n:]
	}
	return types
}
