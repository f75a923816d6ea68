# Twins: a plain recording, and the same with a technique really switched on.  Read by make_all.sh.
# Technique, plain file, name, what record.py is asked for.  Techniques have the names of
# strategies; what has none is "batch", "precision", "keep" (gradients that are zeroed, not let go)
# or, for a plain recording that only twins need, empty.

plain=bert-base-mlm-b32-s128
bert="--model bert-base-mlm --batch 32 --seq 128"
twin checkpoint $plain bert-base-checkpoint $bert --checkpoint block
twin checkpoint $plain bert-base-checkpoint-reentrant $bert --checkpoint reentrant
twin checkpoint $plain bert-base-checkpoint-sequential-4 $bert --checkpoint sequential:4
twin checkpoint $plain bert-base-checkpoint-attention $bert --checkpoint attention
twin checkpoint $plain bert-base-checkpoint-matmuls $bert --checkpoint matmuls
twin accumulate $plain bert-base-accumulate-2 $bert --accumulate 2
twin accumulate $plain bert-base-accumulate-4 $bert --accumulate 4
twin accumulate $plain bert-base-accumulate-8 $bert --accumulate 8
twin accumulate+keep $plain bert-base-accumulate-4-keep $bert --accumulate 4 --keep-gradients
twin accumulate+checkpoint $plain bert-base-accumulate-4-checkpoint $bert --accumulate 4 --checkpoint block
twin keep $plain bert-base-keep-gradients $bert --keep-gradients
twin amp $plain bert-base-amp-bfloat16 $bert --precision amp-bfloat16
twin amp $plain bert-base-amp-float16 $bert --precision amp-float16
twin amp+checkpoint $plain bert-base-amp-float16-checkpoint $bert --precision amp-float16 --checkpoint block
twin amp+accumulate $plain bert-base-amp-float16-accumulate-4 $bert --precision amp-float16 --accumulate 4
twin precision $plain bert-base-bfloat16 $bert --precision bfloat16
twin offload $plain bert-base-save-on-cpu $bert --save-on-cpu
twin offload+checkpoint $plain bert-base-save-on-cpu-checkpoint $bert --save-on-cpu --checkpoint block
twin amp+offload $plain bert-base-save-on-cpu-amp $bert --save-on-cpu --precision amp-bfloat16
twin offload+release $plain bert-base-save-on-cpu-release $bert --save-on-cpu --optimizer-in-backward
twin inplace $plain bert-base-inplace $bert --inplace all
twin chunk $plain bert-base-chunk-mlp-4 $bert --chunk mlp:4
twin amp+chunk $plain bert-base-amp-bfloat16-chunk-mlp-4 $bert --precision amp-bfloat16 --chunk mlp:4
twin release $plain bert-base-release $bert --optimizer-in-backward
twin clip $plain bert-base-clip $bert --clip
twin clip $plain bert-base-clip-loop $bert --clip --clip-form for-loop
twin clip $plain bert-base-clip-error $bert --clip --error-if-nonfinite
twin amp+clip $plain bert-base-amp-float16-clip $bert --precision amp-float16 --clip
twin optimizer $plain bert-base-adamw-loop $bert --optimizer adamw-loop
twin optimizer $plain bert-base-adamw-fused $bert --optimizer adamw-fused
twin optimizer $plain bert-base-sgd $bert --optimizer sgd
twin optimizer $plain bert-base-sgd-momentum $bert --optimizer sgd-momentum
twin optimizer $plain bert-base-adafactor $bert --optimizer adafactor
twin nograd $plain bert-base-no-grad $bert --no-grad
twin batch $plain bert-base-b8 --model bert-base-mlm --batch 8 --seq 128
twin "" "" bert-base-untied $bert --untied
twin share bert-base-untied bert-base-tied $bert

plain=resnet50-b64-i224
resnet="--model resnet50 --batch 64 --optimizer sgd-momentum"
twin inplace $plain resnet50-inplace $resnet --inplace activations
twin inplace $plain resnet50-inplace-all $resnet --inplace all
twin checkpoint $plain resnet50-checkpoint $resnet --checkpoint block
twin checkpoint $plain resnet50-checkpoint-sequential-4 $resnet --checkpoint sequential:4
twin checkpoint $plain resnet50-checkpoint-sequential-8 $resnet --checkpoint sequential:8
twin inplace+checkpoint $plain resnet50-inplace-checkpoint $resnet --inplace activations --checkpoint block
twin inplace+checkpoint+accumulate $plain resnet50-inplace-checkpoint-accumulate-4 $resnet --inplace activations --checkpoint block --accumulate 4
twin accumulate $plain resnet50-accumulate-4 $resnet --accumulate 4
twin amp $plain resnet50-amp-float16 $resnet --precision amp-float16
twin amp+accumulate $plain resnet50-amp-float16-accumulate-2 $resnet --precision amp-float16 --accumulate 2
twin amp+accumulate+inplace $plain resnet50-amp-bfloat16-accumulate-2-inplace $resnet --precision amp-bfloat16 --accumulate 2 --inplace activations
twin amp+accumulate+inplace+checkpoint $plain resnet50-amp-bfloat16-accumulate-4-inplace-checkpoint $resnet --precision amp-bfloat16 --accumulate 4 --inplace activations --checkpoint block
twin amp+accumulate+checkpoint+offload $plain resnet50-amp-bfloat16-accumulate-8-checkpoint-save-on-cpu $resnet --precision amp-bfloat16 --accumulate 8 --checkpoint block --save-on-cpu
twin amp+checkpoint $plain resnet50-amp-bfloat16-checkpoint $resnet --precision amp-bfloat16 --checkpoint block
twin offload $plain resnet50-save-on-cpu $resnet --save-on-cpu
twin release $plain resnet50-release $resnet --optimizer-in-backward
twin optimizer $plain resnet50-adam --model resnet50 --batch 64 --optimizer adam
twin nograd $plain resnet50-no-grad $resnet --no-grad
twin batch $plain resnet50-b16 --model resnet50 --batch 16 --optimizer sgd-momentum
twin "" "" resnet50-stages $resnet --checkpoint-plan 0-39
twin chen resnet50-stages resnet50-chen-recursive $resnet --checkpoint-plan [[[[[0]1][2][3]4][[5]6][7][8]9][[[10]11][12][13]14][[15]16][17][18]19][[[[20]21][22][23]24][[25]26][27][28]29][[[30]31][32][33]34][[35]36][37][38]39
twin revolve resnet50-stages resnet50-revolve-4 $resnet --checkpoint-plan [[[[0][1][2][3]4][[5]6][7][8]9][[10][11][12]13][[14][15]16][[17]18]19][[[20][21][22]23][[24][25]26][[27]28]29][[[30][31]32][[33]34]35][[[36]37]38]39
twin rotor resnet50-stages resnet50-rotor-35 $resnet --checkpoint-plan [[0-3]4]5[[6]7-8]9[10-12]13[14-18]19-39

resnet="--model resnet152 --batch 32 --optimizer sgd-momentum"
twin checkpoint resnet152-b32-i224 resnet152-checkpoint $resnet --checkpoint block
twin inplace resnet152-b32-i224 resnet152-inplace $resnet --inplace activations
twin checkpoint resnet152-b32-i224 resnet152-checkpoint-sequential-7 $resnet --checkpoint sequential:7

plain=vgg16-b64-i224
vgg="--model vgg16 --batch 64 --optimizer sgd-momentum"
twin inplace $plain vgg16-inplace $vgg --inplace activations
twin checkpoint $plain vgg16-checkpoint $vgg --checkpoint block
twin checkpoint $plain vgg16-checkpoint-reentrant $vgg --checkpoint reentrant
twin checkpoint $plain vgg16-checkpoint-sequential-3 $vgg --checkpoint sequential:3
twin accumulate $plain vgg16-accumulate-8 $vgg --accumulate 8
twin amp $plain vgg16-amp-bfloat16 $vgg --precision amp-bfloat16
twin offload $plain vgg16-save-on-cpu $vgg --save-on-cpu
twin nograd $plain vgg16-no-grad $vgg --no-grad
twin optimizer $plain vgg16-rmsprop --model vgg16 --batch 64 --optimizer rmsprop
twin batch $plain vgg16-b16 --model vgg16 --batch 16 --optimizer sgd-momentum
twin "" "" vgg16-stages $vgg --checkpoint-plan 0-40
twin chen vgg16-stages vgg16-chen-sqrt $vgg --checkpoint-plan [0-5][6-11][12-17][18-23][24-29][30-35]36-40
twin chen vgg16-stages vgg16-chen-recursive $vgg --checkpoint-plan [[[[[0]1][2][3]4][[5]6][7][8]9][[[10]11][12][13]14][[15]16][17][18]19][[[[20]21][22][23]24][[25]26][27][28]29][[[30]31][32][33]34][[35][36]37][38][39]40
twin revolve vgg16-stages vgg16-revolve-4 $vgg --checkpoint-plan [[[[0][1][2][3]4][[5][6]7][8][9]10][[11][12][13]14][[15][16]17][[18]19]20][[[21][22][23]24][[25][26]27][[28]29]30][[[31][32]33][[34]35]36][[[37]38]39]40
twin rotor vgg16-stages vgg16-rotor $vgg --checkpoint-plan 0-3[4]5-8[9]10-40
twin "" "" vgg16-leaky-relu $vgg --activation leaky-relu
twin inplace vgg16-leaky-relu vgg16-leaky-relu-inplace $vgg --activation leaky-relu --inplace activations
twin "" "" vgg16-elu $vgg --activation elu
twin inplace vgg16-elu vgg16-elu-inplace $vgg --activation elu --inplace activations

unet="--model unet --batch 8 --optimizer adam"
twin inplace unet-b8-i256 unet-inplace $unet --inplace activations
twin checkpoint unet-b8-i256 unet-checkpoint $unet --checkpoint block
twin inplace+checkpoint unet-b8-i256 unet-inplace-checkpoint $unet --inplace activations --checkpoint block
twin accumulate unet-b8-i256 unet-accumulate-4 $unet --accumulate 4
twin "" "" unet-leaky-relu $unet --activation leaky-relu
twin inplace unet-leaky-relu unet-leaky-relu-abn $unet --activation leaky-relu --abn
twin amp unet-b8-i256 unet-amp-float16 $unet --precision amp-float16
twin skip_reuse unet-b8-i256 unet-placed-skips $unet --place-skips
twin nograd unet-b8-i256 unet-no-grad $unet --no-grad

plain=vit-b16-b64-i224
vit="--model vit-b16 --batch 64"
twin checkpoint $plain vit-b16-checkpoint $vit --checkpoint block
twin checkpoint $plain vit-b16-checkpoint-attention $vit --checkpoint attention
twin checkpoint $plain vit-b16-checkpoint-matmuls $vit --checkpoint matmuls
twin sdpa $plain vit-b16-sdpa $vit --attention sdpa
twin inplace $plain vit-b16-inplace $vit --inplace all
twin amp $plain vit-b16-amp-bfloat16 $vit --precision amp-bfloat16
twin accumulate $plain vit-b16-accumulate-4 $vit --accumulate 4
twin nograd $plain vit-b16-no-grad $vit --no-grad

plain=gpt2-small-b8-s1024
gpt="--model gpt2-small --batch 8 --seq 1024"
twin checkpoint $plain gpt2-small-checkpoint $gpt --checkpoint block
twin checkpoint $plain gpt2-small-checkpoint-attention $gpt --checkpoint attention
twin checkpoint $plain gpt2-small-checkpoint-matmuls $gpt --checkpoint matmuls
twin sdpa $plain gpt2-small-sdpa $gpt --attention sdpa
twin chunk $plain gpt2-small-chunk-attention-4 $gpt --chunk attention:4
twin chunk $plain gpt2-small-chunk-loss-8 $gpt --chunk loss:8
twin amp+chunk $plain gpt2-small-amp-bfloat16-chunk-attention-4 $gpt --precision amp-bfloat16 --chunk attention:4
twin amp+chunk $plain gpt2-small-amp-float16-chunk-loss-8 $gpt --precision amp-float16 --chunk loss:8
twin accumulate $plain gpt2-small-accumulate-4 $gpt --accumulate 4
twin accumulate $plain gpt2-small-accumulate-8 $gpt --accumulate 8
twin amp+checkpoint $plain gpt2-small-amp-bfloat16-checkpoint $gpt --precision amp-bfloat16 --checkpoint block
twin fuse $plain gpt2-small-fused $gpt --fused
twin half $plain gpt2-small-float16-masters-static $gpt --precision float16 --masters static
twin half $plain gpt2-small-float16-masters-dynamic $gpt --precision float16 --masters dynamic
twin release $plain gpt2-small-release $gpt --optimizer-in-backward
twin offload $plain gpt2-small-save-on-cpu $gpt --save-on-cpu
twin sdpa+amp $plain gpt2-small-sdpa-amp-bfloat16 $gpt --attention sdpa --precision amp-bfloat16
twin sdpa+amp+accumulate $plain gpt2-small-sdpa-amp-bfloat16-accumulate-4 $gpt --attention sdpa --precision amp-bfloat16 --accumulate 4
twin sdpa+amp+accumulate+checkpoint $plain gpt2-small-sdpa-amp-bfloat16-accumulate-8-checkpoint $gpt --attention sdpa --precision amp-bfloat16 --accumulate 8 --checkpoint block
twin sdpa+amp+accumulate+checkpoint+offload $plain gpt2-small-sdpa-amp-bfloat16-accumulate-8-checkpoint-save-on-cpu $gpt --attention sdpa --precision amp-bfloat16 --accumulate 8 --checkpoint block --save-on-cpu
twin sdpa+accumulate $plain gpt2-small-sdpa-accumulate-4 $gpt --attention sdpa --accumulate 4
twin nograd $plain gpt2-small-no-grad $gpt --no-grad
twin "" "" gpt2-small-stages $gpt --checkpoint-plan 0-30
twin chen gpt2-small-stages gpt2-small-chen $gpt --checkpoint-plan [0-15]16-30
twin rotor gpt2-small-stages gpt2-small-rotor $gpt --checkpoint-plan 0-2[3]4[5]6[7]8[9]10[11]12[13]14[15]16[17]18[19]20-30
twin "" "" gpt2-small-untied $gpt --untied
twin share gpt2-small-untied gpt2-small-tied $gpt

plain=albert-base-b32-s128
albert="--model albert-base --batch 32 --seq 128"
twin checkpoint $plain albert-base-checkpoint $albert --checkpoint block
twin amp+checkpoint $plain albert-base-amp-bfloat16-checkpoint $albert --precision amp-bfloat16 --checkpoint block
twin "" "" albert-base-unshared $albert --untied
twin share albert-base-unshared albert-base-shared $albert

plain=llama-7b-b1-s2048-bf16
llama="--model llama-7b --batch 1 --seq 2048 --precision bfloat16 --attention sdpa"
twin checkpoint $plain llama-7b-checkpoint $llama --checkpoint block
twin chunk $plain llama-7b-chunk-loss-8 $llama --chunk loss:8
twin release+checkpoint $plain llama-7b-release-checkpoint $llama --optimizer-in-backward --checkpoint block

xl="--model gpt2-xl --batch 2 --seq 1024 --precision bfloat16 --attention sdpa"
twin checkpoint gpt2-xl-b2-s1024-bf16 gpt2-xl-checkpoint-bf16 $xl --checkpoint block
twin optimizer gpt2-xl-b2-s1024-bf16 gpt2-xl-sgd-momentum-bf16 $xl --optimizer sgd-momentum

large="--model bert-large-mlm --batch 8 --seq 512"
twin checkpoint bert-large-mlm-b8-s512 bert-large-checkpoint $large --checkpoint block
twin sdpa bert-large-mlm-b8-s512 bert-large-sdpa $large --attention sdpa

sd="--model sd-unet --batch 4"
twin checkpoint sd-unet-b4-i512 sd-unet-checkpoint $sd --checkpoint block
twin sdpa sd-unet-b4-i512 sd-unet-sdpa $sd --attention sdpa
twin nograd sd-unet-b4-i512 sd-unet-no-grad $sd --no-grad

moe="--model moe-small --batch 8 --seq 512"
twin checkpoint moe-small-b8-s512 moe-small-checkpoint $moe --checkpoint block
twin accumulate moe-small-b8-s512 moe-small-accumulate-2 $moe --accumulate 2

lstm="--model lstm-650 --batch 20 --seq 35"
twin optimizer lstm-650-b20-s35 lstm-650-adam $lstm --optimizer adam
twin accumulate lstm-650-b20-s35 lstm-650-accumulate-4 $lstm --optimizer sgd --accumulate 4
twin nograd lstm-650-b20-s35 lstm-650-no-grad $lstm --no-grad
