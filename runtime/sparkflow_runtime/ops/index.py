"""Where the ops are. Made by `scripts/generate_op_index.py`."""

from collections.abc import Mapping
from typing import Final

MODULES: Final[Mapping[str, str]] = {
    "control.control_flow": (
        "Case If PartitionedCall StatefulPartitionedCall StatelessCase StatelessIf "
        "StatelessWhile While"
    ),
    "control.debugging": ("Assert Print PrintV2 StringFormat"),
    "control.frames": (
        "ControlTrigger Enter Exit FakeParam LoopCond Merge NextIteration RefEnter RefExit "
        "RefMerge RefNextIteration RefSwitch Switch _NoValue"
    ),
    "control.py_func": ("PyFunc PyFuncStateless"),
    "control.tape": ("_TapeGradient _TapeGradientRead _TapeLength _TapeRead"),
    "convolution.conv_ops": (
        "Conv2D Conv2DBackpropFilter Conv2DBackpropInput Conv3D Conv3DBackpropFilterV2 "
        "Conv3DBackpropInputV2"
    ),
    "convolution.depthwise": (
        "DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter "
        "DepthwiseConv2dNativeBackpropInput"
    ),
    "data.dataset": (
        "BatchDataset BatchDatasetV2 CacheDataset CacheDatasetV2 ConcatenateDataset "
        "DatasetCardinality DenseToSparseBatchDataset DirectedInterleaveDataset "
        "DummyMemoryCache DummySeedGenerator IgnoreErrorsDataset ModelDataset OptimizeDataset "
        "OptionsDataset PaddedBatchDataset PaddedBatchDatasetV2 PrefetchDataset RandomDataset "
        "RangeDataset RepeatDataset ShardDataset ShuffleAndRepeatDataset ShuffleDataset "
        "ShuffleDatasetV2 ShuffleDatasetV3 SkipDataset TakeDataset TensorDataset "
        "TensorSliceDataset UnbatchDataset WindowDataset ZipDataset"
    ),
    "data.dataset_files": (
        "DatasetToTFRecord FixedLengthRecordDataset FixedLengthRecordDatasetV2 "
        "SparkflowArrowDataset SparkflowCsvRecordDataset SparkflowHostedDataset "
        "SparkflowParquetDataset TFRecordDataset TextLineDataset"
    ),
    "data.dataset_functions": (
        "DatasetToSingleElement FilterDataset FlatMapDataset GeneratorDataset "
        "GroupByWindowDataset InterleaveDataset MapAndBatchDataset MapDataset "
        "ParallelInterleaveDataset ParallelInterleaveDatasetV2 ParallelInterleaveDatasetV3 "
        "ParallelInterleaveDatasetV4 ParallelMapDataset ParallelMapDatasetV2 ReduceDataset "
        "ScanDataset TakeWhileDataset"
    ),
    "data.iterator": ("IteratorGetNext IteratorV2"),
    "data.iterator_handles": (
        "AnonymousIterator DeleteIterator IteratorFromStringHandle IteratorFromStringHandleV2 "
        "IteratorGetNextAsOptional IteratorGetNextSync IteratorToStringHandle MakeIterator "
        "OneShotIterator OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone"
    ),
    "distributed.collective": (
        "CollectiveBcastRecv CollectiveBcastSend CollectiveBroadcast CollectiveGather "
        "CollectiveReduce CollectiveWeightedMean CollectiveWeightedRows Fingerprints"
    ),
    "distributed.collective_parts": ("_CollectiveStart _CollectiveWait"),
    "distributed.gradient_rounds": (
        "GradientRounds GradientRoundsJoin GradientRoundsLeave GradientRoundsMeet "
        "GradientRoundsRelease GradientRoundsStep ReplicaMean"
    ),
    "distributed.row_travel": ("_DistinctRows _ExpandRows _SumRows"),
    "distributed.staleness": (
        "StalenessClock StalenessClockAdvance StalenessClockJoin StalenessClockLeave"
    ),
    "distributed.transfer": ("_Arg _RecvBundle _Retval _SendBundle"),
    "elementwise.arithmetic": ("AccumulateNV2 AddN Cast"),
    "elementwise.binary": (
        "Add AddV2 Atan2 Div DivNoNan FloorDiv FloorMod Maximum Minimum Mod Mul MulNoNan "
        "NextAfter Pow RealDiv SquaredDifference Sub TruncateDiv TruncateMod Xdivy Xlog1py "
        "Xlogy"
    ),
    "elementwise.bitwise": (
        "Bitcast BitwiseAnd BitwiseOr BitwiseXor Invert LeftShift PopulationCount RightShift"
    ),
    "elementwise.broadcast_gradient": ("BroadcastGradientArgs"),
    "elementwise.comparison": (
        "ApproximateEqual Equal Greater GreaterEqual IsFinite IsInf IsNan Less LessEqual "
        "LogicalAnd LogicalNot LogicalOr NotEqual Select SelectV2"
    ),
    "elementwise.complex": ("Angle Complex ComplexAbs Imag Real"),
    "elementwise.special": (
        "BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 "
        "BesselK1e BesselY0 BesselY1 Betainc Dawsn Digamma Erfc Erfinv Expint FresnelCos "
        "FresnelSin Igamma IgammaGradA Igammac Lgamma Ndtri Polygamma RandomGammaGrad Spence "
        "Zeta"
    ),
    "elementwise.unary": (
        "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Conj Cos Cosh Erf Exp Expm1 Floor Inv "
        "InvGrad Log Log1p Neg Reciprocal ReciprocalGrad Rint Round Rsqrt RsqrtGrad Sign Sin "
        "Sinh Sqrt SqrtGrad Square Tan"
    ),
    "embedding.embedding_table": (
        "EmbeddingEvict EmbeddingExport EmbeddingImport EmbeddingLookup EmbeddingRestore "
        "EmbeddingSetClock EmbeddingShard EmbeddingStatistics EmbeddingTable"
    ),
    "files.csv": ("DecodeCSV"),
    "files.io_files": ("MatchingFiles ReadFile WriteFile"),
    "files.parsing": (
        "DecodeJSONExample ParseExample ParseSingleExample ParseTensor SerializeTensor"
    ),
    "files.parsing_sequence": ("ParseSequenceExample ParseSingleSequenceExample"),
    "files.reader": (
        "FixedLengthRecordReaderV2 IdentityReaderV2 ReaderNumRecordsProducedV2 "
        "ReaderNumWorkUnitsCompletedV2 ReaderReadUpToV2 ReaderReadV2 ReaderResetV2 "
        "ReaderRestoreStateV2 ReaderSerializeStateV2 TFRecordReaderV2 TextLineReaderV2 "
        "WholeFileReaderV2"
    ),
    "files.save_restore": (
        "MergeV2Checkpoints Restore RestoreSlice RestoreV2 Save SaveSlices SaveV2 "
        "ShardedFilename ShardedFilespec"
    ),
    "files.summary": (
        "AudioSummary AudioSummaryV2 HistogramSummary ImageSummary MergeSummary ScalarSummary "
        "TensorSummary TensorSummaryV2"
    ),
    "files.wav": ("DecodeWav EncodeWav"),
    "image.image_boxes": (
        "CropAndResize CropAndResizeGradBoxes CropAndResizeGradImage NonMaxSuppressionV3 "
        "NonMaxSuppressionV4 NonMaxSuppressionWithOverlaps"
    ),
    "image.image_codec": (
        "DecodeAndCropJpeg DecodeBmp DecodeGif DecodeJpeg DecodePng EncodeJpeg EncodePng "
        "ExtractJpegShape"
    ),
    "image.image_color": ("AdjustContrastv2 AdjustHue AdjustSaturation HSVToRGB RGBToHSV"),
    "image.image_resize": (
        "ResizeArea ResizeBicubic ResizeBicubicGrad ResizeBilinear ResizeBilinearGrad "
        "ResizeNearestNeighbor ResizeNearestNeighborGrad"
    ),
    "image.image_sampling": (
        "CombinedNonMaxSuppression DrawBoundingBoxes DrawBoundingBoxesV2 ExtractGlimpse "
        "NonMaxSuppressionV5 SampleDistortedBoundingBoxV2"
    ),
    "indexing.gather": ("Gather GatherNd GatherV2 ScatterNd"),
    "indexing.indexing": ("InTopK InTopKV2 OneHot TopKV2 Unique Where"),
    "indexing.routing": ("DynamicPartition DynamicStitch ParallelDynamicStitch"),
    "indexing.scatter_nd": ("ScatterNdAdd ScatterNdMax ScatterNdMin ScatterNdSub ScatterNdUpdate"),
    "indexing.segment": (
        "SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum UnsortedSegmentMax "
        "UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum"
    ),
    "indexing.sorting": (
        "ListDiff LowerBound UniqueV2 UniqueWithCounts UniqueWithCountsV2 UnravelIndex UpperBound"
    ),
    "indexing.tensor_scatter": (
        "ScatterNdNonAliasingAdd TensorScatterAdd TensorScatterMax TensorScatterMin "
        "TensorScatterSub TensorScatterUpdate"
    ),
    "linalg.added_products": ("_AddedProduct _AddedScaledProduct _AppliedProduct _ScaledProduct"),
    "linalg.decompositions": (
        "Cholesky Lu MatrixExponential MatrixLogarithm MatrixSquareRoot Qr SelfAdjointEigV2 Svd"
    ),
    "linalg.diagonals": (
        "MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 "
        "MatrixDiagV2 MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3"
    ),
    "linalg.einsum": ("Einsum"),
    "linalg.fourier": (
        "FFT FFT2D FFT3D IFFT IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D"
    ),
    "linalg.linalg": ("BatchMatMul BatchMatMulV2 Diag DiagPart MatMul MatrixInverse"),
    "linalg.linear_systems": (
        "LogMatrixDeterminant MatrixDeterminant MatrixSolve MatrixSolveLs MatrixTriangularSolve "
        "TridiagonalSolve"
    ),
    "lists.tensor_array_handle": (
        "StackCloseV2 StackPopV2 StackPushV2 StackV2 TensorArrayCloseV3 TensorArrayConcatV3 "
        "TensorArrayGatherV3 TensorArrayGradV3 TensorArrayReadV3 TensorArrayScatterV3 "
        "TensorArraySizeV3 TensorArraySplitV3 TensorArrayV3 TensorArrayWriteV3"
    ),
    "lists.tensor_list": (
        "EmptyTensorList TensorListFromTensor TensorListGather TensorListGetItem "
        "TensorListLength TensorListReserve TensorListScatterIntoExistingList "
        "TensorListScatterV2 TensorListSetItem TensorListStack _TensorListUnset "
        "_TensorListUnsetMany"
    ),
    "lists.tensor_list_joining": ("TensorListConcatV2 TensorListSplit"),
    "lists.tensor_list_sizes": ("TensorListPopBack TensorListPushBack TensorListResize"),
    "lists.variant_sums": ("_AddVariants _UnsetLike"),
    "nn.activation": (
        "Elu EluGrad LeakyRelu LeakyReluGrad Relu Relu6 Relu6Grad ReluGrad Selu SeluGrad "
        "Sigmoid SigmoidGrad Softplus SoftplusGrad Softsign SoftsignGrad Tanh TanhGrad"
    ),
    "nn.batch_norm": (
        "FusedBatchNorm FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 "
        "FusedBatchNormV2 FusedBatchNormV3"
    ),
    "nn.bias": ("BiasAdd BiasAddGrad"),
    "nn.candidate_sampling": (
        "AllCandidateSampler ComputeAccidentalHits FixedUnigramCandidateSampler "
        "LearnedUnigramCandidateSampler LogUniformCandidateSampler "
        "ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler"
    ),
    "nn.ctc": ("CTCBeamSearchDecoder CTCGreedyDecoder CTCLoss"),
    "nn.dilation": ("Dilation2D Dilation2DBackpropFilter Dilation2DBackpropInput"),
    "nn.fake_quantization": (
        "FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars "
        "FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannel "
        "FakeQuantWithMinMaxVarsPerChannelGradient"
    ),
    "nn.loss": ("SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits"),
    "nn.lrn": ("LRN LRNGrad"),
    "nn.patches": ("ExtractImagePatches ExtractVolumePatches"),
    "nn.quantization": (
        "Dequantize QuantizeAndDequantize QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 "
        "QuantizeV2"
    ),
    "nn.softmax": ("LogSoftmax Softmax"),
    "optimizers.apply_gradient": (
        "ApplyAdaMax ApplyAdadelta ApplyAdagrad ApplyAdagradDA ApplyAdagradV2 ApplyAdam "
        "ApplyAddSign ApplyCenteredRMSProp ApplyFtrl ApplyFtrlV2 ApplyGradientDescent "
        "ApplyMomentum ApplyMovingAverage ApplyPowerSign ApplyProximalAdagrad "
        "ApplyProximalGradientDescent ApplyRMSProp SparseApplyAdaMax SparseApplyAdadelta "
        "SparseApplyAdagrad SparseApplyAdagradDA SparseApplyAdagradV2 SparseApplyAdam "
        "SparseApplyAddSign SparseApplyCenteredRMSProp SparseApplyFtrl SparseApplyFtrlV2 "
        "SparseApplyMomentum SparseApplyPowerSign SparseApplyProximalAdagrad "
        "SparseApplyProximalGradientDescent SparseApplyRMSProp"
    ),
    "optimizers.narrow_update": (
        "NarrowApplyAdaMax NarrowApplyAdadelta NarrowApplyAdagrad NarrowApplyAdagradDA "
        "NarrowApplyAdagradV2 NarrowApplyAdam NarrowApplyAddSign NarrowApplyCenteredRMSProp "
        "NarrowApplyFtrl NarrowApplyFtrlV2 NarrowApplyGradientDescent NarrowApplyMomentum "
        "NarrowApplyPowerSign NarrowApplyProximalAdagrad NarrowApplyProximalGradientDescent "
        "NarrowApplyRMSProp NarrowSparseApplyAdaMax NarrowSparseApplyAdadelta "
        "NarrowSparseApplyAdagrad NarrowSparseApplyAdagradDA NarrowSparseApplyAdagradV2 "
        "NarrowSparseApplyAdam NarrowSparseApplyAddSign NarrowSparseApplyCenteredRMSProp "
        "NarrowSparseApplyFtrl NarrowSparseApplyFtrlV2 NarrowSparseApplyGradientDescent "
        "NarrowSparseApplyMomentum NarrowSparseApplyPowerSign NarrowSparseApplyProximalAdagrad "
        "NarrowSparseApplyProximalGradientDescent NarrowSparseApplyRMSProp "
        "ResourceNarrowApplyAdaMax ResourceNarrowApplyAdadelta ResourceNarrowApplyAdagrad "
        "ResourceNarrowApplyAdagradDA ResourceNarrowApplyAdagradV2 ResourceNarrowApplyAdam "
        "ResourceNarrowApplyAddSign ResourceNarrowApplyCenteredRMSProp ResourceNarrowApplyFtrl "
        "ResourceNarrowApplyFtrlV2 ResourceNarrowApplyGradientDescent "
        "ResourceNarrowApplyMomentum ResourceNarrowApplyPowerSign "
        "ResourceNarrowApplyProximalAdagrad ResourceNarrowApplyProximalGradientDescent "
        "ResourceNarrowApplyRMSProp ResourceNarrowSparseApplyAdaMax "
        "ResourceNarrowSparseApplyAdadelta ResourceNarrowSparseApplyAdagrad "
        "ResourceNarrowSparseApplyAdagradDA ResourceNarrowSparseApplyAdagradV2 "
        "ResourceNarrowSparseApplyAdam ResourceNarrowSparseApplyAddSign "
        "ResourceNarrowSparseApplyCenteredRMSProp ResourceNarrowSparseApplyFtrl "
        "ResourceNarrowSparseApplyFtrlV2 ResourceNarrowSparseApplyGradientDescent "
        "ResourceNarrowSparseApplyMomentum ResourceNarrowSparseApplyPowerSign "
        "ResourceNarrowSparseApplyProximalAdagrad "
        "ResourceNarrowSparseApplyProximalGradientDescent ResourceNarrowSparseApplyRMSProp"
    ),
    "pooling.argmax_pool": ("MaxPoolGradGradWithArgmax MaxPoolGradWithArgmax MaxPoolWithArgmax"),
    "pooling.fractional_pool": (
        "FractionalAvgPool FractionalAvgPoolGrad FractionalMaxPool FractionalMaxPoolGrad"
    ),
    "pooling.pool_ops": (
        "AvgPool AvgPool3D AvgPool3DGrad AvgPoolGrad MaxPool MaxPool3D MaxPool3DGrad "
        "MaxPool3DGradGrad MaxPoolGrad MaxPoolGradGrad"
    ),
    "random.random": (
        "Multinomial RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt "
        "TruncatedNormal"
    ),
    "random.random_distributions": (
        "ParameterizedTruncatedNormal RandomGamma RandomPoisson RandomPoissonV2"
    ),
    "random.random_states": ("RandomStates SetRandomStates"),
    "random.stateless_random": (
        "StatelessMultinomial StatelessRandomGammaV2 StatelessRandomNormal "
        "StatelessRandomPoisson StatelessRandomUniform StatelessRandomUniformFullInt "
        "StatelessRandomUniformInt StatelessTruncatedNormal"
    ),
    "reduction.histogram": ("Bincount HistogramFixedWidth"),
    "reduction.reduction": ("All Any EuclideanNorm L2Loss Max Mean Min Prod Sum"),
    "reduction.scan": ("ArgMax ArgMin Cumprod Cumsum CumulativeLogsumexp"),
    "shape.arranging": ("BroadcastArgs BroadcastTo InvertPermutation Tile Transpose"),
    "shape.constants": (
        "CheckNumerics Const Fill Identity IdentityN LinSpace NoOp OnesLike Placeholder "
        "PlaceholderWithDefault PreventGradient Range StopGradient ZerosLike"
    ),
    "shape.joining": ("Concat ConcatOffset ConcatV2 Split SplitV"),
    "shape.padding": ("MirrorPad MirrorPadGrad Pad PadV2"),
    "shape.reordering": ("Cross EnsureShape GuaranteeConst ParallelConcat ReverseSequence Roll"),
    "shape.shape_ops": ("ExpandDims Rank Reshape Shape ShapeN Size Squeeze"),
    "shape.slicing": ("ReverseV2 Slice StridedSlice StridedSliceGrad"),
    "shape.space_batch": (
        "BatchToSpace BatchToSpaceND DepthToSpace SpaceToBatch SpaceToBatchND SpaceToDepth"
    ),
    "shape.stacking": ("Pack Unpack"),
    "sparse.crossing": ("Bucketize SparseCross"),
    "sparse.sets": (
        "DenseToDenseSetOperation DenseToSparseSetOperation EditDistance SetSize "
        "SparseToSparseSetOperation"
    ),
    "sparse.sparse_layout": (
        "SparseConcat SparseFillEmptyRows SparseFillEmptyRowsGrad SparseReorder SparseReshape "
        "SparseSlice SparseSliceGrad SparseSplit SparseToDense"
    ),
    "sparse.sparse_map": (
        "AddManySparseToTensorsMap AddSparseToTensorsMap TakeManySparseFromTensorsMap"
    ),
    "sparse.sparse_math": (
        "SparseAdd SparseAddGrad SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul "
        "SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse "
        "SparseSoftmax SparseSparseMaximum SparseSparseMinimum SparseTensorDenseAdd"
    ),
    "sparse.sparse_products": ("SparseMatMul SparseTensorDenseMatMul"),
    "sparse.sparse_segment": (
        "SparseSegmentMean SparseSegmentMeanGrad SparseSegmentMeanWithNumSegments "
        "SparseSegmentSqrtN SparseSegmentSqrtNGrad SparseSegmentSqrtNWithNumSegments "
        "SparseSegmentSum SparseSegmentSumGrad SparseSegmentSumWithNumSegments"
    ),
    "sparse.sparse_serial": (
        "DeserializeManySparse DeserializeSparse SerializeManySparse SerializeSparse"
    ),
    "state.barrier": (
        "Barrier BarrierClose BarrierIncompleteSize BarrierInsertMany BarrierReadySize "
        "BarrierTakeMany"
    ),
    "state.conditional_accumulator": (
        "AccumulatorApplyGradient AccumulatorCancelTakes AccumulatorNumAccumulated "
        "AccumulatorSetGlobalStep AccumulatorTakeGradient ConditionalAccumulator "
        "SparseAccumulatorApplyGradient SparseAccumulatorTakeGradient "
        "SparseConditionalAccumulator"
    ),
    "state.lookup_table": (
        "HashTableV2 InitializeTableFromTextFileV2 InitializeTableV2 LookupTableExportV2 "
        "LookupTableFindV2 LookupTableImportV2 LookupTableInsertV2 LookupTableRemoveV2 "
        "LookupTableSizeV2 MutableDenseHashTableV2 MutableHashTableOfTensorsV2 "
        "MutableHashTableV2"
    ),
    "state.old_handles": (
        "FixedLengthRecordReader HashTable IdentityReader InitializeTable "
        "InitializeTableFromTextFile LookupTableExport LookupTableFind LookupTableImport "
        "LookupTableInsert LookupTableSize MutableDenseHashTable MutableHashTable "
        "MutableHashTableOfTensors ReaderNumRecordsProduced ReaderNumWorkUnitsCompleted "
        "ReaderRead ReaderReadUpTo ReaderReset ReaderRestoreState ReaderSerializeState "
        "TFRecordReader TextLineReader WholeFileReader"
    ),
    "state.queue": (
        "FIFOQueue FIFOQueueV2 PaddingFIFOQueue PaddingFIFOQueueV2 PriorityQueue "
        "PriorityQueueV2 QueueClose QueueCloseV2 QueueDequeue QueueDequeueMany "
        "QueueDequeueManyV2 QueueDequeueUpTo QueueDequeueUpToV2 QueueDequeueV2 QueueEnqueue "
        "QueueEnqueueMany QueueEnqueueManyV2 QueueEnqueueV2 QueueIsClosed QueueIsClosedV2 "
        "QueueSize QueueSizeV2 RandomShuffleQueue RandomShuffleQueueV2 SelectHandle"
    ),
    "state.resource_variable": (
        "AssignAddVariableOp AssignSubVariableOp AssignVariableOp DestroyResourceOp "
        "ReadVariableOp ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad "
        "ResourceApplyAdagradDA ResourceApplyAdagradV2 ResourceApplyAdam ResourceApplyAddSign "
        "ResourceApplyCenteredRMSProp ResourceApplyFtrl ResourceApplyFtrlV2 "
        "ResourceApplyGradientDescent ResourceApplyMomentum ResourceApplyMovingAverage "
        "ResourceApplyPowerSign ResourceApplyProximalAdagrad "
        "ResourceApplyProximalGradientDescent ResourceApplyRMSProp ResourceCountUpTo "
        "ResourceGather ResourceGatherNd ResourceScatterAdd ResourceScatterDiv "
        "ResourceScatterMax ResourceScatterMin ResourceScatterMul ResourceScatterNdAdd "
        "ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdSub ResourceScatterNdUpdate "
        "ResourceScatterSub ResourceScatterUpdate ResourceSparseApplyAdaMax "
        "ResourceSparseApplyAdadelta ResourceSparseApplyAdagrad ResourceSparseApplyAdagradDA "
        "ResourceSparseApplyAdagradV2 ResourceSparseApplyAdam ResourceSparseApplyAddSign "
        "ResourceSparseApplyCenteredRMSProp ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2 "
        "ResourceSparseApplyMomentum ResourceSparseApplyPowerSign "
        "ResourceSparseApplyProximalAdagrad ResourceSparseApplyProximalGradientDescent "
        "ResourceSparseApplyRMSProp ResourceStridedSliceAssign VarHandleOp VarIsInitializedOp "
        "VariableShape"
    ),
    "state.scatter": (
        "ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul ScatterSub ScatterUpdate"
    ),
    "state.session_handle": ("DeleteSessionTensor GetSessionHandle GetSessionTensor"),
    "state.staging": ("Stage StageClear StagePeek StageSize Unstage"),
    "state.strided_assign": ("StridedSliceAssign"),
    "state.variable_ops": (
        "Assign AssignAdd AssignSub CountUpTo DestroyTemporaryVariable InitializedValue "
        "IsVariableInitialized TemporaryVariable Variable VariableV2"
    ),
    "step": ("StepNumber"),
    "strings.base64": ("DecodeBase64 DecodeCompressed EncodeBase64"),
    "strings.string_hash": (
        "Fingerprint StringToHashBucket StringToHashBucketFast StringToHashBucketStrong"
    ),
    "strings.string_number": ("AsString DecodeRaw StringToNumber"),
    "strings.string_pattern": (
        "RegexFullMatch RegexReplace StaticRegexFullMatch StaticRegexReplace"
    ),
    "strings.string_unicode": (
        "UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode UnicodeTranscode"
    ),
    "strings.strings": (
        "ReduceJoin StringJoin StringLength StringLower StringNGrams StringSplit StringSplitV2 "
        "StringStrip StringUpper Substr UnsortedSegmentJoin"
    ),
}
"""Per module in this package the types of its ops."""
