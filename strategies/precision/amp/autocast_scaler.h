/* autocast_scaler.h -- torch.amp.GradScaler: the loss is scaled, gradients are unscaled and
 * looked through for infinities before the update.
 */
#ifndef AUTOCAST_SCALER_H
#define AUTOCAST_SCALER_H

#include "autocast.h"

typedef struct autocast_scaler {
    uint32_t scale, tracker; /* tensors */
    bool scaled, began, unscaled;
    uint32_t found;    /* tensor */
    uint32_t last_update; /* op, MR_NONE */
} autocast_scaler;

void autocast_scaler_begin(autocast_scaler *s, autocast *a);

/* After an op: of the forward pass's last, of the first gradient, of the update's last. */
void autocast_scaler_after(autocast_scaler *s, autocast *a, uint32_t o, bool last_forward);

/* Before the first op of the update. */
void autocast_scaler_unscale(autocast_scaler *s, autocast *a, uint32_t event);

#endif
