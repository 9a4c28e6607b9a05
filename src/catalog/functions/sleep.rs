//! `pg_sleep`, which holds no thread and ends when its statement is cancelled.

use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// The function.
pub fn pg_sleep() -> ScalarUDF {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Volatile);
    AsyncScalarUDF::new(std::sync::Arc::new(Sleep { signature })).into_scalar_udf()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sleep {
    signature: Signature,
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &'static str {
        "pg_sleep"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        datafusion::common::internal_err!("pg_sleep is only called asynchronously")
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleep {
    async fn invoke_async_with_args(&self, call: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let seconds = call.args[0].to_array(call.number_rows)?;
        for row in 0..call.number_rows {
            // As long as PostgreSQL: not at all for what isn't a time, and else to the end of a session.
            if let ScalarValue::Float64(Some(seconds)) = ScalarValue::try_from_array(&seconds, row)?
                && let Ok(time) = Duration::try_from_secs_f64(seconds.min(1e9))
            {
                tokio::time::sleep(time).await;
            }
        }
        // A value of type void is shown as nothing.
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(String::new()))))
    }
}
