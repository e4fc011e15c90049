/* SPDX-License-Identifier: Apache-2.0 */
/* All of libgmv, for its users. */
#ifndef GMV_GMV_H
#define GMV_GMV_H

#include <gmv/base/alloc.h>
#include <gmv/base/attr.h>
#include <gmv/base/clock.h>
#include <gmv/base/error.h>
#include <gmv/base/id.h>
#include <gmv/base/log.h>
#include <gmv/base/num.h>
#include <gmv/base/status.h>
#include <gmv/base/strbuf.h>
#include <gmv/device/device.h>
#include <gmv/device/kernels.h>
#include <gmv/device/partials.h>
#include <gmv/device/reductions.h>
#include <gmv/device/split.h>
#include <gmv/model/bitmask.h>
#include <gmv/model/cai.h>
#include <gmv/model/cudf_type.h>
#include <gmv/model/dlpack.h>
#include <gmv/model/dtype.h>
#include <gmv/model/dtype_float.h>
#include <gmv/model/layout.h>
#include <gmv/model/packed_metadata.h>
#include <gmv/model/slice.h>
#include <gmv/ops/buffer.h>
#include <gmv/ops/chunked_pack.h>
#include <gmv/ops/column.h>
#include <gmv/ops/engine.h>
#include <gmv/ops/inspect.h>
#include <gmv/ops/map.h>
#include <gmv/ops/mask.h>
#include <gmv/ops/mask_check.h>
#include <gmv/ops/operation.h>
#include <gmv/ops/packed.h>
#include <gmv/ops/table.h>
#include <gmv/ops/view.h>
#include <gmv/registry/address_index.h>
#include <gmv/registry/registry.h>

#endif
