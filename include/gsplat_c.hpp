/** @file
 * gsplat_c.h for C++17: what must be freed frees itself, descriptors begin with their defaults, and
 * a call that fails throws. Header-only; everything else is as in gsplat_c.h.
 *
 * @code
 * gsplat_c::context context(DLDevice{kDLCPU, 0});
 * gsplat_c::raster_args args; // a gsc_raster_args with every field at its default
 * args.width = args.height = 64;
 * args.means = &means; // a DLTensor of your memory; and so on
 * gsplat_c::raster_outputs outputs;
 * outputs.color = &image;
 * gsplat_c::raster_saved saved;
 * context.rasterize(args, outputs, &saved);
 * context.rasterize_backward(args, saved, grads);
 * @endcode
 */
#ifndef GSPLAT_C_HPP
#define GSPLAT_C_HPP

#include "gsplat_c.h"

#include <memory>
#include <stdexcept>

/** The C++ interface. */
namespace gsplat_c {

/** What a failed call throws, with gsc_last_error() as its text. */
class error : public std::runtime_error {
  public:
    /** Of the failure that this thread has just had. */
    explicit error(gsc_status status)
        : std::runtime_error(gsc_last_error()), status_(status), cuda_(gsc_last_error_cuda()) {}
    /** GSC_ERROR_*. */
    gsc_status status() const noexcept {
        return status_;
    }
    /** The CUresult behind the failure, or 0. */
    int32_t cuda() const noexcept {
        return cuda_;
    }

  private:
    gsc_status status_;
    int32_t cuda_;
};

/** Throws unless a call succeeded. */
inline void check(gsc_status status) {
    if (status != GSC_OK) throw error(status);
}

/** A struct of gsplat_c.h, zero but for its size. */
template <typename Struct> struct descriptor : Struct {
    descriptor() noexcept : Struct() {
        this->struct_size = sizeof(Struct);
    }
};
using allocator = descriptor<gsc_allocator>;             /**< memory for a context */
using limits = descriptor<gsc_limits>;                   /**< of context::limits() */
using raster_args = descriptor<gsc_raster_args>;         /**< a scene and its cameras */
using raster_outputs = descriptor<gsc_raster_outputs>;   /**< where images go */
using raster_grads = descriptor<gsc_raster_grads>;       /**< gradients in and out */
using raster_buffers = descriptor<gsc_raster_buffers>;   /**< memory of the caller */
using raster_info = descriptor<gsc_raster_info>;         /**< what a frame needs */
using knn_args = descriptor<gsc_knn_args>;               /**< points and neighbours */
using ssim_args = descriptor<gsc_ssim_args>;             /**< images to compare */
using image_loss_args = descriptor<gsc_image_loss_args>; /**< images and weights */
using adam_args = descriptor<gsc_adam_args>;             /**< a step of Adam */
using train_args = descriptor<gsc_train_args>;           /**< a training step */

/** What a context is made of, with defaults for a device. */
struct context_desc : descriptor<gsc_context_desc> {
    /** For kDLCPU with id 0, or a kDLCUDA device. */
    explicit context_desc(DLDevice where) noexcept {
        abi_version = GSC_ABI_VERSION;
        device = where;
    }
};

/** Frees a saved state. */
struct free_saved {
    void *stream = nullptr; /**< of the last call that used the state */
    /** Frees it. */
    void operator()(gsc_raster_saved *saved) const noexcept {
        gsc_raster_saved_free(saved, stream);
    }
};
/** What context::rasterize() keeps for backward. Its context must live longer. */
using raster_saved = std::unique_ptr<gsc_raster_saved, free_saved>;

/** A gsc_context with the functions that take one. It can be moved. */
class context {
  public:
    /** Creates a context with defaults. */
    explicit context(DLDevice device) : context(context_desc(device)) {}
    /** Creates a context. */
    explicit context(const gsc_context_desc &desc) {
        gsc_context *created = nullptr;
        check(gsc_context_create(&desc, &created));
        context_.reset(created);
    }
    /** For functions of gsplat_c.h; still owned here. */
    gsc_context *get() const noexcept {
        return context_.get();
    }
    /** gsc_context_limits() */
    gsplat_c::limits limits() const {
        gsplat_c::limits found;
        check(gsc_context_limits(get(), &found));
        return found;
    }

    /** gsc_rasterize(); saved may be NULL. */
    void rasterize(const gsc_raster_args &args, const gsc_raster_outputs &outputs,
                   raster_saved *saved = nullptr, void *stream = nullptr) const {
        gsc_raster_saved *kept = nullptr;
        check(gsc_rasterize(get(), &args, &outputs, saved ? &kept : nullptr, stream));
        if (saved) *saved = raster_saved(kept, free_saved{stream});
    }
    /** gsc_rasterize_backward() */
    void rasterize_backward(const gsc_raster_args &args, const raster_saved &saved,
                            const gsc_raster_grads &grads, void *stream = nullptr) const {
        check(gsc_rasterize_backward(get(), &args, saved.get(), &grads, stream));
    }
    /** gsc_mark_visible() */
    void mark_visible(const gsc_raster_args &args, const DLTensor &visible,
                      void *stream = nullptr) const {
        check(gsc_mark_visible(get(), &args, &visible, stream));
    }

    /** gsc_knn() */
    void knn(const gsc_knn_args &args, void *stream = nullptr) const {
        check(gsc_knn(get(), &args, stream));
    }
    /** gsc_knn_scratch_bytes() */
    size_t knn_scratch_bytes(const gsc_knn_args &args) const {
        size_t bytes = 0;
        check(gsc_knn_scratch_bytes(get(), &args, &bytes));
        return bytes;
    }
    /** gsc_ssim_forward() */
    void ssim_forward(const gsc_ssim_args &args, void *stream = nullptr) const {
        check(gsc_ssim_forward(get(), &args, stream));
    }
    /** gsc_ssim_backward() */
    void ssim_backward(const gsc_ssim_args &args, void *stream = nullptr) const {
        check(gsc_ssim_backward(get(), &args, stream));
    }
    /** gsc_image_loss() */
    void image_loss(const gsc_image_loss_args &args, void *stream = nullptr) const {
        check(gsc_image_loss(get(), &args, stream));
    }
    /** gsc_adam_step() */
    void adam_step(const gsc_adam_args &args, void *stream = nullptr) const {
        check(gsc_adam_step(get(), &args, stream));
    }
    /** gsc_train_step() */
    void train_step(const gsc_train_args &args, void *stream = nullptr) const {
        check(gsc_train_step(get(), &args, stream));
    }

    /** gsc_raster_sizes() */
    void raster_sizes(const gsc_raster_args &args, gsc_raster_info &info) const {
        check(gsc_raster_sizes(get(), &args, &info));
    }
    /** gsc_raster_forecast() */
    void raster_forecast(const gsc_raster_args &args, gsc_raster_info &info) const {
        check(gsc_raster_forecast(get(), &args, &info));
    }
    /** gsc_raster_project(); info may be NULL. */
    void raster_project(const gsc_raster_args &args, const gsc_raster_buffers &buffers,
                        const gsc_raster_outputs &outputs, gsc_raster_info *info,
                        void *stream = nullptr) const {
        check(gsc_raster_project(get(), &args, &buffers, &outputs, info, stream));
    }
    /** gsc_raster_blend(); overflow may be NULL. */
    void raster_blend(const gsc_raster_args &args, const gsc_raster_buffers &buffers,
                      const gsc_raster_outputs &outputs, const gsc_raster_info &info,
                      const DLTensor *overflow = nullptr, void *stream = nullptr) const {
        check(gsc_raster_blend(get(), &args, &buffers, &outputs, &info, overflow, stream));
    }
    /** gsc_raster_project_blend() */
    void raster_project_blend(const gsc_raster_args &args, const gsc_raster_buffers &buffers,
                              const gsc_raster_outputs &outputs, gsc_raster_info &info,
                              void *stream = nullptr) const {
        check(gsc_raster_project_blend(get(), &args, &buffers, &outputs, &info, stream));
    }
    /** gsc_raster_backward() */
    void raster_backward(const gsc_raster_args &args, const gsc_raster_buffers &buffers,
                         const gsc_raster_info &info, const gsc_raster_grads &grads,
                         void *stream = nullptr) const {
        check(gsc_raster_backward(get(), &args, &buffers, &info, &grads, stream));
    }

  private:
    struct free_context {
        void operator()(gsc_context *context) const noexcept {
            gsc_context_free(context);
        }
    };
    std::unique_ptr<gsc_context, free_context> context_;
};

} // namespace gsplat_c

#endif /* GSPLAT_C_HPP */
